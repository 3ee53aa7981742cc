"""A step is a row: two sides, their relation, a reason, and checks by another road.

Its relation has a generic check. Statements that need one of their own find here what several
routes share: numbers at points, sums written out at explicit sizes, difference quotients, signs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partialmethod
from typing import Any, ClassVar

import sympy as sp

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.proof.algebra import vanishes

DIGITS = 40  # of the numbers that sides are compared on
SAMPLES = 3
Point = tuple[Mapping[sp.Expr, Any], Any]  # values of the symbols, and what a side is there


class Relation(StrEnum):
    """EQUAL; AT_MOST: ≤; ORDER: Θ; BOUND: O."""

    EQUAL = "="
    AT_MOST = "<="
    ORDER = "Theta"
    BOUND = "O"


def join(relations: Iterable[Relation]) -> Relation:
    """The relation of a chain: EQUAL, or the one other that its steps have; of several, BOUND."""
    others = set(relations) - {Relation.EQUAL}
    return Relation.BOUND if len(others) > 1 else others.pop() if others else Relation.EQUAL


# ---- a step: two sides, a relation, a reason, and a check by another road ----


@dataclass(frozen=True)
class Check:
    """A named way to test a step; ``holds`` must recompute, never trust the step's producer."""

    name: str
    holds: Callable[[Step], bool]


@dataclass(frozen=True)
class Step:
    """``lhs relation rhs``, because of a reason.

    ``uses`` names earlier steps; ``assumptions`` names premises of ``definitions/assumption.py``;
    ``imposed`` marks a condition that the derivation asks for (a balance, a closure).
    ``bounded`` are the symbols that the assumptions declare to be of order one: an ORDER or
    BOUND step may drop them. ``checks`` replace the generic check of the relation, for
    statements that need one of their own (matrix identities, solutions of equations).
    ``left`` is what ``lhs`` is the value of, where it is a formula itself.
    """

    name: str
    lhs: sp.Expr
    rhs: sp.Expr
    relation: Relation
    because: str
    source: str = "derived here"
    section: str = ""
    uses: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    bounded: tuple[sp.Expr, ...] = ()
    imposed: bool = False
    checks: tuple[Check, ...] = field(default=(), repr=False, compare=False)
    left: sp.Expr | None = None

    def failures(self) -> tuple[str, ...]:
        """The names of the checks that this step fails; empty where it holds."""
        return tuple(self._failing())

    def _failing(self) -> Iterator[str]:
        checks = self.checks or _GENERIC[self.relation]
        return (check.name for check in checks if not _passes(check, self))

    def check(self) -> Verdict:
        """PROVED (given the assumptions) or IMPOSED where every check holds, else REFUTED."""
        if any(self._failing()):
            return Verdict.REFUTED
        return Verdict.IMPOSED if self.imposed else Verdict.PROVED

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        """Every symbol of both sides."""
        return set(self.lhs.free_symbols) | set(self.rhs.free_symbols)


def _passes(check: Check, step: Step) -> bool:
    # A check that cannot be carried out has not been passed.
    try:
        return bool(check.holds(step))
    except (ArithmeticError, ValueError, TypeError, NotImplementedError, AttributeError):
        return False


# ---- the check of each relation, for steps that bring none of their own ----


def simplifies_to_zero(step: Step) -> bool:
    difference = step.lhs - step.rhs
    # a common denominator shows most identities, and a point most errors, at a fraction of the time
    if vanishes(difference):
        return True
    if any(gap.is_number and gap.is_finite and abs(gap) > 1e-25 for gap in _gaps(step, 1)):
        return False
    return bool(sp.simplify(difference) == 0)


def rational_point(
    symbols: set[sp.Symbol], generator: random.Random
) -> dict[sp.Symbol, sp.Rational]:
    """A random exact rational value for each symbol, within its assumptions."""
    point: dict[sp.Symbol, sp.Rational] = {}
    for symbol in sorted(symbols, key=str):
        if symbol.is_integer:
            point[symbol] = sp.Integer(generator.randint(2, 9))
        else:
            value = sp.Rational(generator.randint(1, 40), generator.randint(41, 97))
            sign = 1 if symbol.is_nonnegative else generator.choice((-1, 1))
            point[symbol] = sign * value
    return point


def _gaps(step: Step, times: int) -> Iterator[sp.Expr]:
    """``rhs − lhs`` at random exact rational points."""
    generator = random.Random(step.name)
    for _ in range(times):
        point = rational_point(step.free_symbols, generator)
        yield sp.N((step.rhs - step.lhs).xreplace(point).doit(), 40)


# infinite, or a limit that SymPy could not take: neither shows that a ratio stays bounded
_UNDECIDED = (sp.oo, sp.zoo, sp.nan, sp.Limit, sp.AccumBounds)


def is_of_order_one(step: Step) -> bool:
    """``lhs/rhs`` tends to a number that is not 0, however the free knobs scale.

    Every symbol that is not declared bounded is made a random power of one large variable: a ratio
    that stays of order one for all of them holds none of them.
    """
    bounded = {b: sp.Rational(3, 7) + i for i, b in enumerate(step.bounded)}
    ratio = (step.lhs / step.rhs).xreplace(bounded)
    scale, generator = sp.Symbol("t", positive=True), random.Random(step.name)
    for _ in range(SAMPLES):
        powers = {
            s: scale ** sp.Rational(generator.choice((-1, 1)) * generator.randint(1, 9), 7)
            for s in sorted(ratio.free_symbols, key=str)
        }
        # each way and its opposite: what vanishes one way grows the other
        for end in (sp.oo, 0):
            limit = sp.limit(sp.powsimp(ratio.xreplace(powers), force=True), scale, end, dir="+")
            if limit.is_finite is False or limit.has(*_UNDECIDED) or limit == 0:
                return False
    return True


def squares_differ_by_no_negative_term(step: Step) -> bool:
    """0 ≤ lhs and lhs² ≤ rhs²: the root of a sum of squares compared without the root."""
    numerator, denominator = sp.fraction(sp.factor(sp.together(step.rhs**2 - step.lhs**2)))
    signed = (step.lhs, step.rhs, sp.expand(numerator), sp.expand(denominator))
    return all(side.is_nonnegative for side in signed)


IDENTITY = Check("lhs - rhs simplifies to 0", simplifies_to_zero)
SAMPLED = Check(
    "equal at random rational points",
    lambda step: all(abs(gap) <= 1e-25 for gap in _gaps(step, SAMPLES)),
)
ORDER_ONE = Check("ratio stays of order 1", is_of_order_one)
DROPPED = Check("nothing that is bounded is left", lambda step: not step.rhs.has(*step.bounded))
TRIANGLE = Check(
    "rhs - lhs is never negative at points of all signs, and 0 at one",
    lambda step: min(_gaps(step, 64)) == 0,
)
SQUARES_AT_MOST = Check(
    "rhs^2 - lhs^2 is a sum of non-negative terms", squares_differ_by_no_negative_term
)

_GENERIC: dict[Relation, tuple[Check, ...]] = {
    Relation.EQUAL: (IDENTITY, SAMPLED),
    Relation.ORDER: (ORDER_ONE, DROPPED),
    Relation.AT_MOST: (SQUARES_AT_MOST,),
    Relation.BOUND: (ORDER_ONE, DROPPED),
}


# ---- sides at explicit sizes ----


def written_out(expression: sp.Expr) -> sp.Expr:
    """Every sum and product over a range of numbers, term by term: a sum's terms, then theirs."""
    return expression.doit().doit()


def written_at(name: str, points: Callable[[], Iterable[Point]]) -> Check:
    """Both sides, written out at explicit sizes, are what is listed; a pair is one for each."""

    def holds(step: Step) -> bool:
        for values, listed in points():
            both = listed if isinstance(listed, tuple) else (listed, listed)
            for side, one in zip((step.lhs, step.rhs), both, strict=True):
                if not vanishes(written_out(side.subs(values)) - one):
                    return False
        return True

    return Check(name, holds)


def equal_at_sizes(size: sp.Symbol) -> Check:
    """Both sides written out at explicit sizes are identical in all other symbols."""

    def holds(step: Step) -> bool:
        return all(
            vanishes(written_out((step.rhs - step.lhs).xreplace({size: sp.Integer(value)})))
            for value in (1, 2, 3)
        )

    return Check(f"identical when written out at {size} = 1, 2, 3", holds)


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


DERIVATIVE = Check("a central difference at a random point", _derivative_by_quotient)


def reached(symbol: sp.Symbol, end: sp.Expr) -> Check:
    """lhs/rhs tends to 1 where a symbol tends to an end: a leading order, which a bound keeps."""

    def holds(step: Step) -> bool:
        point = {**rational_point(step.free_symbols, random.Random(step.name)), symbol: end}
        return bool(abs(sp.N((step.lhs / step.rhs).xreplace(point), DIGITS) - 1) < 1e-12)

    return Check(f"the bound is reached at {symbol} = {end}", holds)


NAMED = Check(
    "the left is a symbol that the right does not hold",
    lambda step: step.lhs.is_Symbol and not step.rhs.has(step.lhs),
)


def defines(name: str, recompute: Callable[[], sp.Expr]) -> Check:
    """A definition: a new symbol on the left, and on the right what ``recompute`` finds anew."""

    def holds(step: Step) -> bool:
        return NAMED.holds(step) and vanishes(step.rhs - recompute())

    return Check(name, holds)


# ---- a section: steps that share a title and a source ----


@dataclass(frozen=True)
class Section:
    """Makes the steps of a section: ``section.equal(name, lhs, rhs, because, …)``."""

    title: str
    source: str = "derived here"

    def step(
        self, relation: Relation, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Any
    ) -> Step:
        """lhs relation rhs; ``more`` are other fields of :class:`Step`."""
        more.setdefault("source", self.source)
        return Step(name, lhs, rhs, relation, because, section=self.title, **more)

    equal: ClassVar[Callable[..., Step]] = partialmethod(step, Relation.EQUAL)  # type: ignore[assignment]
    at_most: ClassVar[Callable[..., Step]] = partialmethod(step, Relation.AT_MOST)  # type: ignore[assignment]
    order: ClassVar[Callable[..., Step]] = partialmethod(step, Relation.ORDER)  # type: ignore[assignment]
    bound: ClassVar[Callable[..., Step]] = partialmethod(step, Relation.BOUND)  # type: ignore[assignment]
