"""What only the sources' own steps need on matrices: joined ones, and a loss of numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import sympy as sp

from deepnet_theory.proof.algebra import Form, MatrixMap, Printed
from deepnet_theory.proof.witness import Matrix

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

    def forms(self) -> tuple[Form, Form, Form]:
        """Both in brackets."""
        left, right = r"\left[\begin{smallmatrix}", r"\end{smallmatrix}\right]"
        latex = (left, 0, self.latex_mark, 1, right)
        return ("[", 0, f"{self.mark} ", 1, "]"), latex, ("[", 0, self.mark, 1, "]")


class Beside(Joined):
    """[A B]: the columns of both."""

    latex_mark = "&"


class Above(Joined):
    """[A; B]: the rows of both."""

    mark = ";"
    latex_mark = r"\\"


def any_loss(a: Matrix) -> Matrix:
    """A loss of no particular form, a 1×1 matrix."""
    entries = [p for row in a for p in row]
    terms = (math.sin(p + i) + 0.1 * i * p * entries[i - 1] for i, p in enumerate(entries))
    return Matrix([[sum(terms)]])


# what stands for them on explicit matrices
ON_MATRICES: dict[type[sp.Expr], Callable[..., Matrix]] = {
    Loss: any_loss,
    Beside: lambda a, b: Matrix([left + right for left, right in zip(a, b, strict=True)]),
    Above: lambda a, b: Matrix(a.rows + b.rows),
}
