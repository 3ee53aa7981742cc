"""How the two sides of a step are related, and how relations compose along a chain."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict, Unpack

import sympy as sp

from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra.monomial import vanishes


class Relation(StrEnum):
    """EQUAL; ASYMPTOTIC: ratio → 1; AT_MOST: ≤; ORDER: Θ; BOUND: O."""

    EQUAL = "="
    ASYMPTOTIC = "~"
    AT_MOST = "<="
    ORDER = "Theta"
    BOUND = "O"


# What each relation still implies; joining two takes the strongest thing implied by both.
# a = b gives everything; a ~ b gives Θ and O; a ≤ b gives O; a = Θ(b) gives a = O(b).
_IMPLIES: dict[Relation, tuple[Relation, ...]] = {
    Relation.EQUAL: tuple(Relation),
    Relation.ASYMPTOTIC: (Relation.ASYMPTOTIC, Relation.ORDER, Relation.BOUND),
    Relation.AT_MOST: (Relation.AT_MOST, Relation.BOUND),
    Relation.ORDER: (Relation.ORDER, Relation.BOUND),
    Relation.BOUND: (Relation.BOUND,),
}
_STRENGTH = (
    Relation.EQUAL,
    Relation.ASYMPTOTIC,
    Relation.AT_MOST,
    Relation.ORDER,
    Relation.BOUND,
)


def join(relations: Iterable[Relation]) -> Relation:
    """The relation of a chain: EQUAL < ASYMPTOTIC < ORDER < BOUND, EQUAL < AT_MOST < BOUND.

    AT_MOST joined with ASYMPTOTIC or ORDER is BOUND.
    """
    common = set(Relation)
    for relation in relations:
        common &= set(_IMPLIES[relation])
    return next(r for r in _STRENGTH if r in common)


# ---- a step: two sides, a relation, a reason, and a check by another road ----


SAMPLES = 3


@dataclass(frozen=True)
class Check:
    """A named way to test a step; ``holds`` must recompute, never trust the step's producer."""

    name: str
    holds: Callable[[Step], bool]


@dataclass(frozen=True)
class Regime:
    """Where ASYMPTOTIC and ORDER hold: ``variable`` tends to ``limit``."""

    variable: sp.Symbol
    limit: sp.Expr
    keeps: str = ""  # what is held fixed, or how other symbols follow, in words

    def __str__(self) -> str:
        tail = f", {self.keeps}" if self.keeps else ""
        return f"{self.variable} -> {self.limit}{tail}"


@dataclass(frozen=True)
class Step:
    """``lhs relation rhs``, because of a reason.

    ``uses`` names earlier steps; ``assumptions`` names premises of ``spec/assumptions``;
    ``establishes`` are the symbols that this step introduces (by definition or by solving).
    ``imposed`` marks a condition that the derivation asks for (a balance, a closure).
    ``bounded`` are the symbols that the assumptions declare to be of order one: an ORDER or
    BOUND step may drop them. ``checks`` replace the generic check of the relation, for
    statements that need one of their own (matrix identities, solutions of equations).
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
    establishes: tuple[sp.Symbol, ...] = ()
    bounded: tuple[sp.Expr, ...] = ()
    regime: Regime | None = None
    imposed: bool = False
    checks: tuple[Check, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.relation in (Relation.ASYMPTOTIC,) and self.regime is None:
            raise TypeError(f"step {self.name!r}: {self.relation.name} must name its regime")

    def failures(self) -> tuple[str, ...]:
        """The names of the checks that this step fails; empty where it holds."""
        checks = self.checks or _GENERIC[self.relation]
        return tuple(check.name for check in checks if not _passes(check, self))

    def check(self) -> Verdict:
        """PROVED (given the assumptions) or IMPOSED where every check holds, else REFUTED."""
        if self.failures():
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


def _difference(step: Step) -> sp.Expr:
    return step.lhs - step.rhs


def simplifies_to_zero(step: Step) -> bool:
    """``lhs − rhs`` simplifies to zero (entry by entry for explicit matrices)."""
    difference = _difference(step)
    if isinstance(difference, sp.MatrixBase):
        return all(sp.simplify(sp.expand(entry)) == 0 for entry in difference)
    if vanishes(difference):
        return True  # a common denominator shows most identities, at a fraction of the time
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


def holds_at_rational_points(step: Step) -> bool:
    """``lhs − rhs`` is zero at random exact rational points."""
    generator = random.Random(step.name)
    for _ in range(SAMPLES):
        point = rational_point(step.free_symbols, generator)
        value = _difference(step).xreplace(point).doit()
        entries = list(value) if isinstance(value, sp.MatrixBase) else [value]
        if any(_size(entry) > 1e-25 for entry in entries):
            return False
    return True


def _size(value: sp.Expr) -> float:
    value = sp.nsimplify(value) if value.is_Rational else value
    return float(abs(sp.N(value, 40)))


def _is_rational(step: Step, variable: sp.Symbol) -> bool:
    return bool(step.lhs.is_rational_function(variable) and step.rhs.is_rational_function(variable))


def _ratio(step: Step) -> sp.Expr:
    return sp.powsimp(sp.simplify(step.lhs / step.rhs), force=True)


def ratio_tends_to_one(step: Step) -> bool:
    """The limit of ``lhs/rhs`` in the step's regime is 1."""
    assert step.regime is not None
    variable = step.regime.variable
    ratio = sp.cancel(step.lhs / step.rhs) if _is_rational(step, variable) else _ratio(step)
    limit = sp.limit(ratio, variable, step.regime.limit, dir="+")
    return bool(sp.simplify(limit - 1) == 0)


def ratio_is_of_order_one(step: Step) -> bool:
    """``lhs/rhs`` has a finite, non-zero limit however the free knobs scale.

    Without a regime, every symbol that is not declared bounded is made a random power of one
    large variable: a ratio that stays of order one for all of them holds none of them.
    """
    return _order_limits(step, lambda limit: limit.is_finite is not False and limit != 0)


def ratio_is_bounded(step: Step) -> bool:
    """``lhs/rhs`` has a finite limit however the free knobs scale."""
    return _order_limits(step, lambda limit: limit.is_finite is not False)


# infinite, or a limit that SymPy could not take: neither shows that a ratio stays bounded
_UNDECIDED = (sp.oo, sp.zoo, sp.nan, sp.Limit, sp.AccumBounds)


def _order_limits(step: Step, accept: Callable[[sp.Expr], bool]) -> bool:
    bounded = {b: sp.Rational(3, 7) + i for i, b in enumerate(step.bounded)}
    ratio = (step.lhs / step.rhs).xreplace(bounded)
    if step.regime is not None:
        limit = sp.limit(sp.simplify(ratio), step.regime.variable, step.regime.limit, dir="+")
        return accept(limit) and not limit.has(*_UNDECIDED)
    scale = sp.Symbol("t", positive=True)
    generator = random.Random(step.name)
    for _ in range(SAMPLES):
        exponents = {
            s: sp.Rational(generator.choice((-1, 1)) * generator.randint(1, 9), 7)
            for s in sorted(ratio.free_symbols, key=str)
        }
        # each way and its opposite: what vanishes one way grows the other
        for way in (1, -1):
            powers = {s: scale ** (way * e) for s, e in exponents.items()}
            limit = sp.limit(sp.powsimp(ratio.xreplace(powers), force=True), scale, sp.oo)
            if limit.has(*_UNDECIDED) or not accept(limit):
                return False
    return True


def difference_is_nonnegative(step: Step) -> bool:
    """``rhs − lhs`` is provably non-negative from the symbols' assumptions."""
    difference = step.rhs - step.lhs
    if sp.factor(difference).is_nonnegative:
        return True
    return bool(sp.factor(sp.simplify(difference)).is_nonnegative)


def at_most_at_rational_points(step: Step) -> bool:
    """``lhs ≤ rhs`` at random exact rational points."""
    generator = random.Random(step.name)
    for _ in range(4 * SAMPLES):
        point = rational_point(step.free_symbols, generator)
        if sp.N((step.rhs - step.lhs).xreplace(point), 40) < -1e-25:
            return False
    return True


IDENTITY = Check("lhs - rhs simplifies to 0", simplifies_to_zero)
SAMPLED = Check("equal at random rational points", holds_at_rational_points)
LIMIT = Check("ratio tends to 1", ratio_tends_to_one)
ORDER_ONE = Check("ratio stays of order 1", ratio_is_of_order_one)
BOUNDED = Check("ratio stays bounded", ratio_is_bounded)
SIGN = Check("rhs - lhs is non-negative", difference_is_nonnegative)
SAMPLED_AT_MOST = Check("lhs <= rhs at random rational points", at_most_at_rational_points)

_GENERIC: dict[Relation, tuple[Check, ...]] = {
    Relation.EQUAL: (IDENTITY, SAMPLED),
    Relation.ASYMPTOTIC: (LIMIT,),
    Relation.ORDER: (ORDER_ONE,),
    Relation.AT_MOST: (SIGN, SAMPLED_AT_MOST),
    Relation.BOUND: (BOUNDED,),
}


# ---- a section: steps that share a title and a source ----


class Options(TypedDict, total=False):
    """What a step says besides its two sides, as :class:`Step` describes it."""

    source: str
    uses: tuple[str, ...]
    assumptions: tuple[str, ...]
    establishes: tuple[sp.Symbol, ...]
    bounded: tuple[sp.Symbol, ...]
    regime: Regime | None
    imposed: bool
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Section:
    """Makes the steps of a section: ``section.equal(name, lhs, rhs, because, …)``."""

    title: str
    source: str = "derived here"

    def equal(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs = rhs."""
        return self.step(Relation.EQUAL, name, lhs, rhs, because, **more)

    def asymptotic(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs/rhs → 1 in a regime."""
        return self.step(Relation.ASYMPTOTIC, name, lhs, rhs, because, **more)

    def at_most(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs ≤ rhs."""
        return self.step(Relation.AT_MOST, name, lhs, rhs, because, **more)

    def order(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs = Θ(rhs)."""
        return self.step(Relation.ORDER, name, lhs, rhs, because, **more)

    def bound(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """lhs = O(rhs)."""
        return self.step(Relation.BOUND, name, lhs, rhs, because, **more)

    def step(
        self,
        relation: Relation,
        name: str,
        lhs: sp.Expr,
        rhs: sp.Expr,
        because: str,
        **more: Unpack[Options],
    ) -> Step:
        """lhs relation rhs."""
        more.setdefault("source", self.source)
        return Step(name, lhs, rhs, relation, because, section=self.title, **more)
