"""Checks that several routes share: explicit sizes, difference quotients, limits, signs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import sympy as sp

from deepnet_theory.symbolic.algebra import i, is_nonnegative, r, vanishes
from deepnet_theory.symbolic.proof.step import Check, Step, rational_point

DIGITS = 40  # of the numbers that sides are compared on
Numbers = Mapping[sp.Expr, Any]
Point = tuple[Numbers, Any]  # values of the symbols, and what a side is there


# ---- sides as numbers ----


def number(of: Any, at: Numbers | None = None) -> Any:
    """The number at the working precision of mpmath, every node of an expression computed in it.

    SymPy never meets the numbers: it would factor a root of 4*10^200 + 1, and give up. Nor does
    Python: in code printed for it, an unevaluated 3**(-1) is a quotient of integers, in double
    precision.
    """
    at = at or {}
    found = at.get(of, of)
    if isinstance(found, Decimal):
        return mpmath.mpf(str(found))
    if isinstance(found, sp.Rational | Fraction):
        return mpmath.mpf(found.numerator) / found.denominator
    if not isinstance(found, sp.Basic):
        return mpmath.mpf(found)
    if found.is_Atom:
        return mpmath.mpmathify(sp.N(found, mpmath.mp.dps))
    if isinstance(found, sp.Sum):
        exact = {symbol: n for symbol, n in at.items() if isinstance(n, sp.Integer)}
        return number(written_out(found.xreplace(exact)), at)
    return _COMPUTED[found.func](*(number(node, at) for node in found.args))


_COMPUTED: dict[type[sp.Expr], Callable[..., Any]] = {
    sp.Add: lambda *terms: mpmath.fsum(terms),
    sp.Mul: lambda *factors: mpmath.fprod(factors),
    sp.Pow: mpmath.power,
    sp.exp: mpmath.exp,
    sp.Max: max,
}


def _sides(step: Step, expected: Any) -> Iterator[tuple[sp.Expr, Any]]:
    """Each side with what is expected of it; a pair is of each by itself."""
    both = expected if isinstance(expected, tuple) else (expected, expected)
    return zip((step.lhs, step.rhs), both, strict=True)


def at_points(name: str, points: Callable[[Step], Iterable[Point]], digits: int = 25) -> Check:
    """Both sides are at every point what is computed anew there."""

    def holds(step: Step) -> bool:
        with mpmath.workdps(DIGITS):
            return all(
                near(number(side, at), value, digits)
                for at, expected in points(step)
                for side, value in _sides(step, expected)
            )

    return Check(name, holds)


def near(found: Any, expected: Any, digits: int = 25) -> bool:
    """Whether two numbers are the same to a number of digits."""
    value = number(expected)
    return bool(abs(found - value) <= mpmath.mpf(10) ** -digits * abs(value))


# ---- sides at explicit sizes ----


def written_out(expression: sp.Expr) -> sp.Expr:
    """Every sum and product over a range of numbers, term by term (no closed form is sought)."""
    if isinstance(expression, (sp.Sum, sp.Product)):
        collect = sp.Add if isinstance(expression, sp.Sum) else sp.Mul
        *inner, (index, first, last) = expression.limits
        term = expression.func(expression.function, *inner) if inner else expression.function
        return collect(
            *(
                written_out(term.xreplace({index: sp.Integer(value)}))
                for value in range(int(first), int(last) + 1)
            )
        )
    if not expression.has(sp.Sum, sp.Product):
        return expression
    return expression.func(*(written_out(argument) for argument in expression.args))


def written_at(name: str, points: Callable[[], Iterable[Point]]) -> Check:
    """Both sides, written out at explicit sizes, are what is listed."""

    def holds(step: Step) -> bool:
        return all(
            vanishes(written_out(side.subs(at)) - value)
            for at, listed in points()
            for side, value in _sides(step, listed)
        )

    return Check(name, holds)


def equal_at_sizes(
    size: sp.Symbol,
    sizes: Iterable[int] = (1, 2, 3),
    rewrite: Callable[[sp.Expr], sp.Expr] = lambda side: side,
    *,
    accepted: Callable[[sp.Expr], bool] = vanishes,
    what: str = "identical when written out",
) -> Check:
    """Both sides written out at explicit sizes are identical in all other symbols."""

    def holds(step: Step) -> bool:
        for at in ({size: sp.Integer(value)} for value in sizes):
            left, right = (rewrite(written_out(s.xreplace(at))) for s in (step.lhs, step.rhs))
            if not accepted(right - left):
                return False
        return True

    return Check(f"{what} at {size} = {', '.join(map(str, sizes))}", holds)


# written out at explicit sizes, rhs − lhs is a sum of non-negative terms
at_most_at_sizes = partial(
    equal_at_sizes, accepted=is_nonnegative, what="rhs - lhs has no negative term"
)


# ---- both sides at a random point, and as functions ----


def _derivative_by_quotient(step: Step) -> bool:
    """The unevaluated derivative on the left, as a central difference at rational points."""
    function, (variable, _) = step.lhs.args
    h = sp.Rational(1, 10**15)
    point = rational_point(step.free_symbols, random.Random(step.name))
    ahead, behind = (
        function.xreplace({**point, variable: point[variable] + shift}) for shift in (h, -h)
    )
    quotient = sp.N((ahead - behind) / (2 * h), 30, maxn=200)
    # the central difference is off by h² times a third derivative
    return bool(abs(quotient - sp.N(step.rhs.xreplace(point), 40)) < sp.Float("1e-20"))


def _derivative_by_logarithm(step: Step) -> bool:
    """f'/f = (log f)', which is rational where f holds a square root."""
    function, (variable, _) = step.lhs.args
    logarithm = sp.expand_log(sp.log(function), force=True)
    return vanishes(step.rhs / function - sp.diff(logarithm, variable))


DERIVATIVE = (
    Check("a central difference at a random point", _derivative_by_quotient),
    Check("the logarithmic derivative", _derivative_by_logarithm),
)


def ratio_in_branch_weight(last: sp.Symbol, weight: sp.Expr) -> Check:
    """lhs/rhs depends on r alone (and on a sublayer's number i) and tends to 1 with r → 0.

    ``last`` is a factor of ``weight`` or of its inverse, eliminated in favour of r = ``weight``.
    """
    inverse = (weight / last).has(last)  # weight is some factor over ``last``
    solution = weight * last / r if inverse else r * last / weight

    def holds(step: Step) -> bool:
        ratio = sp.cancel(sp.together((step.lhs / step.rhs) ** 2).xreplace({last: solution}))
        # squaring removes the root and the sign, so the sign is looked at by itself
        tiny = dict.fromkeys(step.free_symbols, sp.Rational(3, 2))
        tiny[last] = solution.xreplace({**tiny, r: sp.Rational(1, 10**9)})
        positive = sp.N((step.lhs / step.rhs).xreplace(tiny), 30) > 0
        # a rational function in lowest terms tends to its value, and has one where it is finite
        return bool(positive and ratio.free_symbols <= {r, i} and ratio.subs(r, 0) == 1)

    return Check("the ratio is positive, its square a function of r alone that tends to 1", holds)


def _squares(step: Step) -> bool:
    """0 ≤ lhs and lhs² ≤ rhs²: the root of a sum of squares compared without the root."""
    difference = sp.factor(sp.together(step.rhs**2 - step.lhs**2))
    return bool(step.lhs.is_nonnegative and step.rhs.is_nonnegative and is_nonnegative(difference))


SQUARES_AT_MOST = Check("rhs^2 - lhs^2 is a sum of non-negative terms", _squares)
NAMED = Check(
    "the left is a symbol that is introduced here",
    lambda step: step.lhs in step.establishes and not step.rhs.has(step.lhs),
)


def defines(name: str, recompute: Callable[[], sp.Expr]) -> Check:
    """A definition: a new symbol on the left, and on the right what ``recompute`` finds anew."""

    def holds(step: Step) -> bool:
        return NAMED.holds(step) and vanishes(step.rhs - recompute())

    return Check(name, holds)
