"""Checks that only the sources' own steps need: squares that meet, signs of terms, quadrature."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp
from mpmath import fp

from deepnet_theory.proof.algebra import is_nonnegative
from deepnet_theory.proof.step import Check, Step


def squares_meet(name: str, *ways: Callable[[sp.Symbol], dict[sp.Symbol, sp.Expr]]) -> Check:
    """Both sides are positive, and their squares' ratio, rational in t, is 1 at t = 0.

    A way gives the symbols' values in t.
    """
    t = sp.Symbol("t", positive=True)

    def holds(step: Step) -> bool:
        square = sp.cancel((step.lhs / step.rhs) ** 2)
        ratios = (sp.cancel(square.subs(way(t))) for way in ways)
        positive = step.lhs.is_positive and step.rhs.is_positive
        return bool(positive and all(ratio.subs(t, 0) == 1 for ratio in ratios))

    return Check(name, holds)


def _nonnegative_terms(step: Step) -> bool:
    return is_nonnegative(step.rhs - step.lhs)


NONNEGATIVE_TERMS = Check("rhs - lhs is a sum of non-negative terms", _nonnegative_terms)


def _quadrature(step: Step) -> bool:
    """The integral on the left, numerically, at two values of its symbols."""
    (integral,) = step.lhs.atoms(sp.Integral)
    (variable, low, high) = integral.args[1]
    symbols = sorted(step.free_symbols - {variable}, key=str)
    integrand = sp.lambdify((variable, *symbols), integral.args[0], "math")
    for number in (sp.Rational(3, 4), sp.Rational(6, 5)):
        at = dict.fromkeys(symbols, number)
        numbers = [float(number)] * len(symbols)
        ends = [
            fp.inf if end == sp.oo else float(sp.sympify(end).xreplace(at)) for end in (low, high)
        ]
        area = fp.quad(lambda place, numbers=numbers: integrand(place, *numbers), ends)
        found = step.lhs.xreplace({integral: sp.Float(area)})
        if abs(float(found.xreplace(at)) - float(step.rhs.xreplace(at))) > 1e-11:
            return False
    return True


QUADRATURE = Check("the integral by numerical quadrature", _quadrature)
