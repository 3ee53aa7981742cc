"""Depth expressions (grammar strings) as SymPy expressions in N and M."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import DEPTH, Expression, OperatorAlgebra, fold
from deepnet_theory.symbolic.algebra.symbols import DEPTHS

_FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}


def rational(value: Fraction) -> sp.Rational:
    """The SymPy rational of a fraction."""
    return sp.Rational(value.numerator, value.denominator)


class _Depth(OperatorAlgebra[Any]):
    def number(self, value: Fraction) -> Any:
        return rational(value)

    def name(self, name: str) -> Any:
        return DEPTHS[name]

    def power(self, base: Any, exponent: Fraction) -> Any:
        return base ** rational(exponent)

    def call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return _FUNCTIONS[function](*arguments)


def depth_expression(source: str | Expression) -> Any:
    """The SymPy form of an expression in N and M.

    Raises :class:`InputError` where it is not finite, as for ``1/0``.
    """
    expression = DEPTH.parse(source) if isinstance(source, str) else source
    value = fold(expression.root, _Depth())
    if value.has(sp.zoo, sp.nan, sp.oo):
        raise InputError(f"{expression.text!r} divides by zero")
    return value
