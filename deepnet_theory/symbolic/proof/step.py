"""How the two sides of a step are related, and how relations compose along a chain."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partialmethod
from typing import ClassVar, Protocol, TypedDict, Unpack

import sympy as sp

from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra import vanishes


class Relation(StrEnum):
    """EQUAL; ASYMPTOTIC: ratio → 1; AT_MOST: ≤; ORDER: Θ; BOUND: O."""

    EQUAL = "="
    ASYMPTOTIC = "~"
    AT_MOST = "<="
    ORDER = "Theta"
    BOUND = "O"


# What each relation still implies, in the order of strength. a = b gives everything; a ~ b gives
# Θ and O; a ≤ b gives O; a = Θ(b) gives a = O(b).
_IMPLIES: dict[Relation, frozenset[Relation]] = {
    Relation.EQUAL: frozenset(Relation),
    Relation.ASYMPTOTIC: frozenset((Relation.ASYMPTOTIC, Relation.ORDER, Relation.BOUND)),
    Relation.AT_MOST: frozenset((Relation.AT_MOST, Relation.BOUND)),
    Relation.ORDER: frozenset((Relation.ORDER, Relation.BOUND)),
    Relation.BOUND: frozenset((Relation.BOUND,)),
}


def join(relations: Iterable[Relation]) -> Relation:
    """The relation of a chain: the strongest that all of its relations imply.

    EQUAL < ASYMPTOTIC < ORDER < BOUND, EQUAL < AT_MOST < BOUND; AT_MOST joined with ASYMPTOTIC or
    ORDER is BOUND.
    """
    common = frozenset(Relation).intersection(*(_IMPLIES[relation] for relation in relations))
    return next(relation for relation in _IMPLIES if relation in common)


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
    establishes: tuple[sp.Symbol, ...] = ()
    bounded: tuple[sp.Expr, ...] = ()
    regime: Regime | None = None
    imposed: bool = False
    checks: tuple[Check, ...] = field(default=(), repr=False, compare=False)
    left: sp.Expr | None = None

    def __post_init__(self) -> None:
        if self.relation is Relation.ASYMPTOTIC and self.regime is None:
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


# ---- the check of each relation, for steps that bring none of their own ----


def simplifies_to_zero(step: Step) -> bool:
    difference = step.lhs - step.rhs
    if isinstance(difference, sp.MatrixBase):
        return all(sp.simplify(sp.expand(entry)) == 0 for entry in difference)
    # a common denominator shows most identities, at a fraction of the time
    return vanishes(difference) or bool(sp.simplify(difference) == 0)


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
        value = (step.rhs - step.lhs).xreplace(rational_point(step.free_symbols, generator)).doit()
        yield from (sp.N(v, 40) for v in (value if isinstance(value, sp.MatrixBase) else [value]))


def ratio_tends_to_one(step: Step) -> bool:
    """The limit of ``lhs/rhs`` in the step's regime is 1."""
    assert step.regime is not None
    variable, ratio = step.regime.variable, step.lhs / step.rhs
    rational = all(side.is_rational_function(variable) for side in (step.lhs, step.rhs))
    ratio = sp.cancel(ratio) if rational else sp.powsimp(sp.simplify(ratio), force=True)
    limit = sp.limit(ratio, variable, step.regime.limit, dir="+")
    return bool(sp.simplify(limit - 1) == 0)


# infinite, or a limit that SymPy could not take: neither shows that a ratio stays bounded
_UNDECIDED = (sp.oo, sp.zoo, sp.nan, sp.Limit, sp.AccumBounds)


def _limits(step: Step) -> Iterator[sp.Expr]:
    """The limits of ``lhs/rhs`` in the step's regime, or however the free knobs scale.

    Without a regime, every symbol that is not declared bounded is made a random power of one
    large variable: a ratio that stays of order one for all of them holds none of them.
    """
    bounded = {b: sp.Rational(3, 7) + i for i, b in enumerate(step.bounded)}
    ratio = (step.lhs / step.rhs).xreplace(bounded)
    if step.regime is not None:
        yield sp.limit(sp.simplify(ratio), step.regime.variable, step.regime.limit, dir="+")
        return
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
            yield sp.limit(sp.powsimp(ratio.xreplace(powers), force=True), scale, sp.oo)


def stays_bounded(step: Step, or_vanishes: bool = True) -> bool:
    """``lhs/rhs`` has finite limits, and where ``or_vanishes`` is False none of them is 0."""
    return all(
        limit.is_finite is not False and not limit.has(*_UNDECIDED) and (or_vanishes or limit != 0)
        for limit in _limits(step)
    )


def difference_is_nonnegative(step: Step) -> bool:
    difference = step.rhs - step.lhs
    return any(sp.factor(of(difference)).is_nonnegative for of in (sp.sympify, sp.simplify))


IDENTITY = Check("lhs - rhs simplifies to 0", simplifies_to_zero)
SAMPLED = Check(
    "equal at random rational points",
    lambda step: all(abs(gap) <= 1e-25 for gap in _gaps(step, SAMPLES)),
)
LIMIT = Check("ratio tends to 1", ratio_tends_to_one)
ORDER_ONE = Check("ratio stays of order 1", lambda step: stays_bounded(step, or_vanishes=False))
DROPPED = Check("nothing that is bounded is left", lambda step: not step.rhs.has(*step.bounded))
BOUNDED = Check("ratio stays bounded", stays_bounded)
SIGN = Check("rhs - lhs is non-negative", difference_is_nonnegative)
SAMPLED_AT_MOST = Check(
    "lhs <= rhs at random rational points",
    lambda step: all(gap >= -1e-25 for gap in _gaps(step, 4 * SAMPLES)),
)

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
    left: sp.Expr


class Maker(Protocol):
    """Makes a step of one relation."""

    def __call__(
        self, name: str, lhs: sp.Expr, rhs: sp.Expr, because: str, **more: Unpack[Options]
    ) -> Step:
        """The step."""


@dataclass(frozen=True)
class Section:
    """Makes the steps of a section: ``section.equal(name, lhs, rhs, because, …)``."""

    title: str
    source: str = "derived here"

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

    equal: ClassVar[Maker] = partialmethod(step, Relation.EQUAL)  # type: ignore[assignment]
    asymptotic: ClassVar[Maker] = partialmethod(step, Relation.ASYMPTOTIC)  # type: ignore[assignment]
    at_most: ClassVar[Maker] = partialmethod(step, Relation.AT_MOST)  # type: ignore[assignment]
    order: ClassVar[Maker] = partialmethod(step, Relation.ORDER)  # type: ignore[assignment]
    bound: ClassVar[Maker] = partialmethod(step, Relation.BOUND)  # type: ignore[assignment]
