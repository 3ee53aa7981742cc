"""What only the sources' own steps need on matrices: joined ones, and a loss of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import sympy as sp

from deepnet_theory.proof.algebra import Form, MatrixMap, Printed
from deepnet_theory.proof.witness import Array

if TYPE_CHECKING:
    from collections.abc import Callable


class Loss(MatrixMap):
    """The loss as a function of a sublayer's output; its differential is ⟨∂L/∂x, ·⟩."""

    label = "L"
    latex_label = r"\mathcal{L}"


class Joined(Printed):
    """Two matrices as one: side by side, or one above the other."""

    mark: ClassVar[str] = ","
    latex_mark: ClassVar[str] = r"\ "

    def forms(self) -> tuple[Form, Form]:
        """Both in brackets."""
        left, right = r"\left[\begin{smallmatrix}", r"\end{smallmatrix}\right]"
        latex = (left, 0, self.latex_mark, 1, right)
        return ("[", 0, f"{self.mark} ", 1, "]"), latex


class Beside(Joined):
    """[A B]: the columns of both."""

    latex_mark = "&"


class Above(Joined):
    """[A; B]: the rows of both."""

    mark = ";"
    latex_mark = r"\\"


def any_loss(a: Array) -> Array:
    """A loss of no particular form, a 1×1 matrix."""
    entries, places = np.ravel(a), np.arange(np.size(a))
    total = np.sum(np.sin(entries + places) + 0.1 * places * entries * np.roll(entries, 1))
    return np.reshape(total, (1, 1))


# what stands for them on explicit matrices
ON_MATRICES: dict[type[sp.Expr], Callable[..., Array]] = {
    Loss: any_loss,
    Beside: lambda a, b: np.hstack((a, b)),
    Above: lambda a, b: np.vstack((a, b)),
}
