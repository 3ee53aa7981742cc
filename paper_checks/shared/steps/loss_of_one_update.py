r"""What the first update of an optimizer takes from the loss: ΔL ≈ ⟨∇L, Δθ⟩, entry by entry.

Source: Su, §Increment explosion and §Multiple optimizers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy as sp

from deepnet_theory.definitions.expression import Node, OperatorAlgebra, fold
from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.proof.algebra import eta, rational
from deepnet_theory.proof.step import Check, Section, Step
from deepnet_theory.sizes.update import law

SECTION = Section("The increment", "Su, §Increment explosion; §Multiple optimizers")

# SymPy would compare the arguments of a maximum, each with each, which nesting makes exponential
_SYMBOLIC: dict[str, Callable[..., sp.Expr]] = {
    "sign": sp.sign,
    "abs": sp.Abs,
    "sqrt": sp.sqrt,
    "log": sp.log,
    "max": lambda *of: sp.Max(*of, evaluate=False),
    "min": lambda *of: sp.Min(*of, evaluate=False),
}


class OnEntries(OperatorAlgebra[Any]):
    """Values are expressions, or the two entries of a 1 × 2 matrix."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def number(self, value: Fraction) -> Any:
        return rational(value)

    def name(self, name: str) -> Any:
        return self.values[name]

    def operate(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if any(isinstance(a, tuple) for a in arguments):
            return tuple(function(*a) for a in zip(*map(pair, arguments), strict=True))
        return function(*arguments)

    def power(self, base: Any, exponent: Fraction) -> Any:
        return self.operate(operator.pow, base, rational(exponent))

    def blocks(self, inner: Node, rows: int) -> Any:
        return fold(inner, self)  # there is one row

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        match function:
            case "rows":
                return sp.Integer(1)
            case "columns" | "numel":
                return sp.Integer(2)
            case "norm" | "rms":
                square = sum(entry**2 for entry in pair(*arguments))
                return sp.sqrt(square if function == "norm" else square / 2)
            case "polar":  # of one row: its direction
                return self.divide(pair(*arguments), self.call("norm", arguments))
            case "clip":
                value, low, high = arguments
                return self.call("min", (self.call("max", (value, low)), high))
        return self.operate(_SYMBOLIC[function], *arguments)


def pair(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, value)


def loss_increment(optimizer: Optimizer) -> Step:
    r"""ΔL ≈ ⟨∇L, Δθ⟩ for the optimizer's own step, on two entries.

    Source: Su, §Increment explosion and §Multiple optimizers.
    """
    g = sp.symbols("g_1 g_2", real=True, nonzero=True)
    theta = sp.symbols("theta_1 theta_2", real=True, nonzero=True)
    values = {"eta": eta, "g": g, "theta": theta}
    update = pair(fold(law(optimizer).reduced, OnEntries(values)))
    product = sum(a * b for a, b in zip(g, update, strict=True))
    return SECTION.equal(
        "loss-increment",
        product,
        _tidy(product, g),
        (
            "to first order the loss changes by <gradient, update>; here for a parameter of two "
            "entries, with the optimizer's own update"
        ),
        assumptions=("linear-step",),
        establishes=(*g, *theta),
        checks=(Check("equal at exact entries of every sign", _equal_at_entries(g, theta)),),
    )


_READABLE = 100


def _terms_multiplied_out(expression: sp.Expr) -> int:
    inner = [_terms_multiplied_out(part) for part in expression.args]
    if expression.is_Add:
        return sum(inner)
    return math.prod(inner) if expression.is_Mul else 1


def _tidy(product: sp.Expr, entries: Sequence[sp.Symbol]) -> sp.Expr:
    """g·sign(g) written |g|, and common factors taken out, where that is no more to read."""
    if _terms_multiplied_out(product) > _READABLE:
        return product
    absolute = [sp.Symbol(f"a_{i}", positive=True) for i, _ in enumerate(entries)]
    unsigned = sp.expand_mul(product)
    for entry, size in zip(entries, absolute, strict=True):
        unsigned = unsigned.xreplace({sp.sign(entry): size / entry})
    collected = sp.factor_terms(sp.expand_mul(unsigned))
    return collected.xreplace({a: sp.Abs(g) for a, g in zip(absolute, entries, strict=True)})


def _equal_at_entries(g: Sequence[sp.Symbol], theta: Sequence[sp.Symbol]) -> Callable[[Step], bool]:
    points = ((3, -2, 5, 7), (-1, -4, 2, -3), (2, 5, -1, 6))

    def holds(step: Step) -> bool:
        for point in points:
            values = dict(zip((*g, *theta), map(sp.Integer, point), strict=True))
            values[eta] = sp.Rational(2, 7)
            if abs(sp.N((step.lhs - step.rhs).xreplace(values), 30)) > sp.Float("1e-20"):
                return False
        return True

    return holds
