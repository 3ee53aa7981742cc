"""Exact numbers of expressions at a point: rationals stay fractions, which is fast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

import sympy as sp

Number: TypeAlias = Fraction | sp.Expr
Point: TypeAlias = Mapping[sp.Expr, Number | int]  # symbols and named quantities → their numbers


def exact(expression: sp.Expr, point: Point) -> Number:
    """The value of ``expression`` where its symbols take the numbers of ``point``.

    A ``Fraction`` where sums, products and integer powers of rationals lead to it, else the
    SymPy number.
    """
    return _fraction(_value(sp.sympify(expression), point))


def _value(node: sp.Expr, point: Point) -> Number:
    if node in point:
        return _fraction(point[node])
    if node.is_Rational:
        return Fraction(int(node.p), int(node.q))
    if node.is_Add:
        total: Number = Fraction(0)
        for argument in node.args:
            total = total + _value(argument, point)
        return total
    if node.is_Mul:
        result: Number = Fraction(1)
        for argument in node.args:
            result = result * _value(argument, point)
        return result
    if node.is_Pow and node.exp.is_Integer:
        base = _value(node.base, point)
        return _fraction(base ** int(node.exp))
    if not node.args:
        return node
    return node.func(*(sp.sympify(_value(argument, point)) for argument in node.args))


def _fraction(value: Number) -> Number:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int):
        return Fraction(value)
    number = sp.sympify(value)
    return Fraction(int(number.p), int(number.q)) if number.is_Rational else number


def root(number: Fraction) -> Number:
    """The square root; of a number that is no square it is left as it stands, not factored."""
    above, below = math.isqrt(number.numerator), math.isqrt(number.denominator)
    if above**2 == number.numerator and below**2 == number.denominator:
        return Fraction(above, below)
    return sp.Pow(sp.sympify(number), sp.S.Half, evaluate=False)


def is_zero(value: Number) -> bool:
    """Whether an exact number is zero."""
    if isinstance(value, Fraction):
        return value == 0
    return bool(sp.expand(value) == 0)
