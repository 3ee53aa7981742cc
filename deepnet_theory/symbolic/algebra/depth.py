"""Formulas of the grammar as SymPy expressions; those in N and M among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import sympy as sp

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import DEPTH, Expression, OperatorAlgebra, fold
from deepnet_theory.symbolic.algebra.symbols import DEPTHS

Functions = Mapping[str, Callable[..., sp.Expr]]
FUNCTIONS = {"sqrt": sp.sqrt, "log": sp.log, "abs": sp.Abs, "max": sp.Max, "min": sp.Min}


def rational(value: Fraction) -> sp.Rational:
    """The SymPy rational of a fraction."""
    return sp.Rational(value.numerator, value.denominator)


@dataclass(frozen=True)
class _Sympy(OperatorAlgebra[sp.Expr]):
    names: Mapping[str, sp.Expr]
    functions: Functions

    def number(self, value: Fraction) -> sp.Expr:
        return rational(value)

    def name(self, name: str) -> sp.Expr:
        return self.names[name]

    def power(self, base: sp.Expr, exponent: Fraction) -> sp.Expr:
        return base ** rational(exponent)

    def call(self, function: str, arguments: tuple[sp.Expr, ...]) -> sp.Expr:
        return self.functions[function](*arguments)


def in_sympy(
    expression: Expression, names: Mapping[str, sp.Expr], functions: Functions = FUNCTIONS
) -> sp.Expr:
    """A formula with its names and functions read as given, its numbers exact."""
    return fold(expression.root, _Sympy(names, functions))


def depth_expression(source: str | Expression) -> sp.Expr:
    """The SymPy form of an expression in N and M.

    Raises :class:`InputError` where it is not finite, as for ``1/0``.
    """
    expression = DEPTH.parse(source) if isinstance(source, str) else source
    value = in_sympy(expression, DEPTHS)
    if value.has(sp.zoo, sp.nan, sp.oo):
        raise InputError(f"{expression.text!r} divides by zero")
    return value
