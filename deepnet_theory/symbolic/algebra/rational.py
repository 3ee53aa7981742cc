"""Whether an expression is zero, or nowhere negative, by its numerator and denominator.

A rational function becomes a pair of polynomials of a ring, many times faster than a tree. Every
symbol and every application of an undefined function is a generator. A common denominator is all
that is formed: nothing is cancelled, so a numerator may carry factors of its denominator.
"""

from __future__ import annotations

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.polys.orderings import lex
from sympy.polys.rings import PolyElement, PolyRing


class NotRationalError(ValueError):
    """The expression holds a power that is not a whole number, or a known function."""


def vanishes(expression: sp.Expr) -> bool:
    """Whether an expression is zero by expanding its numerator; False where that is not seen."""
    if expression == 0:
        return True
    try:
        above, below = fraction(expression)
        return bool(above == 0 and below != 0)
    except NotRationalError:
        return bool(sp.expand(sp.numer(sp.together(expression))) == 0)


def is_nonnegative(expression: sp.Expr) -> bool:
    """Whether numerator and denominator are sums of non-negative terms."""
    try:
        above, below = fraction(expression)
        if below != 0 and has_no_negative_term(above) and has_no_negative_term(below):
            return True
    except NotRationalError:
        pass
    if expression.is_nonnegative:
        return True
    numerator, denominator = sp.fraction(sp.together(expression))
    return bool(
        sp.expand(numerator).is_nonnegative
        and (denominator.is_positive or sp.expand(denominator).is_positive)
    )


def fraction(expression: sp.Expr) -> tuple[PolyElement, PolyElement]:
    """Numerator and denominator as ring elements; raises :class:`NotRationalError`."""
    generators = sorted(_generators(expression), key=str)
    ring = PolyRing(generators or [sp.Symbol("_")], sp.QQ, lex)
    values = dict(zip(generators, ring.gens, strict=False))

    def pair(node: sp.Expr) -> tuple[PolyElement, PolyElement]:
        if node in values:
            return values[node], ring.one
        if node.is_Rational:
            return ring(sp.QQ.from_sympy(node)), ring.one
        if node.is_Pow:
            above, below = pair(node.base)
            power = int(node.exp)
            return (above**power, below**power) if power > 0 else (below**-power, above**-power)
        parts = [pair(argument) for argument in node.args]
        above, below = parts[0]
        for top, bottom in parts[1:]:
            if node.is_Mul:
                above, below = above * top, below * bottom
            elif bottom == below:
                above = above + top
            else:
                above, below = above * bottom + top * below, below * bottom
        return above, below

    return pair(expression)


def _generators(node: sp.Expr) -> set[sp.Expr]:
    if node.is_Rational:
        return set()
    if node.is_Add or node.is_Mul:
        return set().union(*(_generators(argument) for argument in node.args))
    if node.is_Pow:
        if not node.exp.is_Integer:
            raise NotRationalError(str(node))
        return _generators(node.base)
    if not (node.is_Symbol or isinstance(node, AppliedUndef)):
        raise NotRationalError(str(node))
    return {node}


def has_no_negative_term(polynomial: PolyElement) -> bool:
    """Whether every term is non-negative: its coefficient, and its generators' odd powers."""
    signed = [not generator.is_nonnegative for generator in polynomial.ring.symbols]
    return all(
        coefficient >= 0
        and not any(power % 2 and odd for power, odd in zip(powers, signed, strict=True))
        for powers, coefficient in polynomial.terms()
    )
