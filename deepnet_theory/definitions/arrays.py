"""An update on numbers: the one interpreter of its expression, on arrays of NumPy or of torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from deepnet_theory.definitions.expression import OPERATORS, Algebra, Functions, Node, fold


@dataclass(frozen=True, kw_only=True)
class OnArrays(Algebra):
    """Values are numbers and arrays (…, rows, columns), each of the leading ones by itself.

    ``xp`` is ``numpy`` or ``torch``, ``like`` an array of the parameter's shape. ``polar`` gives
    the polar factor of such an array. A number is a parameter with all entries equal to it.
    """

    xp: Any
    like: Any
    polar: Callable[[Any], Any]

    def call(self, function: str, *arguments: Any) -> Any:
        rows, columns = self.like.shape[-2:]
        if function in ("numel", "rows", "columns"):
            return float({"numel": rows * columns, "rows": rows, "columns": columns}[function])
        first, *others = map(self.whole, arguments)
        match function:
            case "norm" | "rms":
                length = self.xp.sqrt((first * first).sum(axis=(-2, -1), keepdims=True))
                return length if function == "norm" else length / math.sqrt(rows * columns)
            case "polar":
                return self.polar(first)
            case "max":
                return reduce(self.xp.maximum, others, first)
            case "min":
                return reduce(self.xp.minimum, others, first)
            case "clip":
                return self.xp.minimum(self.xp.maximum(first, others[0]), others[1])
        return getattr(self.xp, function)(first)

    def whole(self, value: Any) -> Any:
        """A value as an array of the parameter's shape."""
        if hasattr(value, "shape"):
            return self.xp.broadcast_to(value, self.like.shape)
        return self.xp.full_like(self.like, value)


def _kept_at_zero(xp: Any, value: Any, *factors: Any) -> Any:
    for factor in factors:
        if hasattr(factor, "shape"):
            value = xp.where(factor == 0, xp.zeros_like(value), value)
    return value


def _product(xp: Any, left: Any, right: Any) -> Any:
    # a number is finite: only of two arrays can one be infinite where the other is 0
    both = hasattr(left, "shape") and hasattr(right, "shape")
    return _kept_at_zero(xp, left * right, left, right) if both else left * right


def _quotient(xp: Any, left: Any, right: Any) -> Any:
    """0/0 is 0: a row without a gradient, as of a unit that no token reaches, takes no step."""
    return _kept_at_zero(xp, left / right, left)


def on(
    xp: Any, update: Node, g: Any, theta: Any, polar: Callable[[Any], Any], **constants: Any
) -> Any:
    """Δθ of parameters θ (…, rows, columns) with gradients g; ``constants`` has ``eta``."""
    operators: Functions = {**OPERATORS, "*": partial(_product, xp), "/": partial(_quotient, xp)}
    values = {"g": g, "theta": theta, **constants}
    algebra = OnArrays(values, operators=operators, xp=xp, like=g, polar=polar)
    return algebra.whole(fold(update, algebra))
