"""An update on a 1 × 2 matrix, entry by entry: on symbols, or on numbers of every sign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import TypeAlias

import mpmath
import sympy as sp

from deepnet_theory.spec.expression import Node, OperatorAlgebra, fold
from deepnet_theory.symbolic.algebra.depth import rational

Scalar: TypeAlias = sp.Expr | mpmath.mpf
Entries: TypeAlias = tuple[Scalar, Scalar]
Value: TypeAlias = Scalar | Entries

# SymPy would compare the arguments of a maximum, each with each, which nesting makes exponential
_SYMBOLIC: dict[str, Callable[..., sp.Expr]] = {
    "sign": sp.sign,
    "abs": sp.Abs,
    "sqrt": sp.sqrt,
    "log": sp.log,
    "max": lambda *of: sp.Max(*of, evaluate=False),
    "min": lambda *of: sp.Min(*of, evaluate=False),
}
_NUMERIC: dict[str, Callable[..., mpmath.mpf]] = {
    "sign": mpmath.sign,
    "abs": abs,
    "sqrt": mpmath.sqrt,
    "log": mpmath.log,
    "max": max,
    "min": min,
}


@dataclass(frozen=True)
class _OnEntries(OperatorAlgebra[Value]):
    """Values are scalars and pairs; a scalar stands for a parameter of two such entries."""

    values: dict[str, Value]
    functions: dict[str, Callable[..., Scalar]]
    number_of: Callable[[Fraction], Scalar]

    def number(self, value: Fraction) -> Value:
        return self.number_of(value)

    def name(self, name: str) -> Value:
        return self.values[name]

    def add(self, left: Value, right: Value) -> Value:
        return _each(lambda a, b: a + b, left, right)

    def subtract(self, left: Value, right: Value) -> Value:
        return _each(lambda a, b: a - b, left, right)

    def multiply(self, left: Value, right: Value) -> Value:
        return _each(lambda a, b: a * b, left, right)

    def divide(self, left: Value, right: Value) -> Value:
        return _each(lambda a, b: a / b, left, right)

    def power(self, base: Value, exponent: Fraction) -> Value:
        return _each(lambda a: a ** self.number_of(exponent), base)

    def call(self, function: str, arguments: tuple[Value, ...]) -> Value:
        match function:
            case "norm":
                first, second = _pair(arguments[0])
                return self.functions["sqrt"](first**2 + second**2)
            case "rms":
                root = self.functions["sqrt"](self.number_of(Fraction(2)))
                return self.call("norm", arguments) / root
            case "numel":
                return self.number_of(Fraction(2))
            case "polar":  # of one row: its direction
                return self.divide(_pair(arguments[0]), self.call("norm", arguments))
            case "clip":
                value, low, high = arguments
                return self.call("min", (self.call("max", (value, low)), high))
            case _:
                return _each(self.functions[function], *arguments)


def _pair(value: Value) -> Entries:
    return value if isinstance(value, tuple) else (value, value)


def _each(function: Callable[..., Scalar], *arguments: Value) -> Value:
    if any(isinstance(a, tuple) for a in arguments):
        return tuple(function(*e) for e in zip(*map(_pair, arguments), strict=True))
    return function(*arguments)


def on_symbols(update: Node, rate: sp.Expr, g: Entries, theta: Entries) -> Entries:
    """The two entries of an update as SymPy expressions."""
    values = {"eta": rate, "g": g, "theta": theta}
    return _pair(fold(update, _OnEntries(values, _SYMBOLIC, rational)))


def _mpf(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


# sizes of g's and θ's entries, incommensurable and in each order
_SIZES = (
    ("3/7", "5/11", "17/5", "23/9"),
    ("29/8", "13/3", "2/17", "7/31"),
    ("1/5", "19", "6", "2/9"),
)
_SIGNS = tuple(product((1, -1), repeat=4))
DIGITS = 40  # that two evaluations of a value have in common


@dataclass(frozen=True)
class Sample:
    """The update at one point: its entries, those of g, and which of the sizes the point has."""

    size: int
    g: Entries
    value: Entries


@lru_cache(maxsize=64)
def samples(
    update: Node, scale_g: int = 1, scale_theta: int = 1, sizes: int = len(_SIZES)
) -> tuple[Sample, ...]:
    """The update at entries of every sign and of several sizes, to ``DIGITS`` digits.

    What is below the digits of its terms is 0. Raises ``ArithmeticError`` where it is not finite,
    ``ValueError`` where it is not real.
    """
    found = []
    for (size, magnitudes), signs in product(enumerate(_SIZES[:sizes]), _SIGNS):
        exact = [s * Fraction(m) for s, m in zip(signs, magnitudes, strict=True)]
        g, theta = [scale_g * e for e in exact[:2]], [scale_theta * e for e in exact[2:]]
        # rounding differs between two precisions, a value does not
        coarse, fine = (_value(update, g, theta, d) for d in (DIGITS + 20, 2 * DIGITS + 40))
        with mpmath.workdps(2 * DIGITS):
            first, second = (
                f if abs(c - f) <= mpmath.mpf(10) ** -DIGITS * abs(f) else mpmath.mpf(0)
                for c, f in zip(coarse, fine, strict=True)
            )
            found.append(Sample(size, (_mpf(g[0]), _mpf(g[1])), (first, second)))
    return tuple(found)


def _value(update: Node, g: list[Fraction], theta: list[Fraction], digits: int) -> Entries:
    with mpmath.workdps(digits):
        return on_numbers(
            update,
            {
                "eta": _mpf(Fraction(1, 3)),
                "g": (_mpf(g[0]), _mpf(g[1])),
                "theta": (_mpf(theta[0]), _mpf(theta[1])),
            },
        )


def on_numbers(update: Node, values: Mapping[str, Value]) -> Entries:
    """The two entries of an update at numbers, to mpmath's precision.

    Raises ``ArithmeticError`` where one is not finite, ``ValueError`` where it is not real.
    """
    result = _pair(fold(update, _OnEntries(dict(values), _NUMERIC, _mpf)))
    for entry in result:
        if not isinstance(entry, mpmath.mpf):
            raise ValueError(f"{entry} is not real")
        if not mpmath.isfinite(entry):
            raise ArithmeticError(f"{entry} is not finite")
    return result
