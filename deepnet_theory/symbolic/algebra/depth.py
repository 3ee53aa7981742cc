"""Depth expressions (grammar strings) as SymPy expressions in N and M."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import DEPTH, Expression, OperatorAlgebra, fold
from deepnet_theory.symbolic.algebra.symbols import DEPTHS

_FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}


def rational(value: Fraction) -> sp.Rational:
    """The SymPy rational of a fraction."""
    return sp.Rational(value.numerator, value.denominator)


class _Depth(OperatorAlgebra[sp.Expr]):
    def number(self, value: Fraction) -> sp.Expr:
        return rational(value)

    def name(self, name: str) -> sp.Expr:
        return DEPTHS[name]

    def power(self, base: sp.Expr, exponent: Fraction) -> sp.Expr:
        return base ** rational(exponent)

    def call(self, function: str, arguments: tuple[sp.Expr, ...]) -> sp.Expr:
        return _FUNCTIONS[function](*arguments)


def depth_expression(source: str | Expression) -> sp.Expr:
    """The SymPy form of an expression in N and M.

    Raises :class:`InputError` where it is not finite, as for ``1/0``.
    """
    expression = DEPTH.parse(source) if isinstance(source, str) else source
    value = fold(expression.root, _Depth())
    if value.has(sp.zoo, sp.nan, sp.oo):
        raise InputError(f"{expression.text!r} divides by zero")
    return value
