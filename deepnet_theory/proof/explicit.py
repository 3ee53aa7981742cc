r"""Explicit numbers: an update on a 1 × 2 matrix of entries, and one sublayer of a stack at a rule.

No law of sizes enters. How a sublayer responds is measured on matrices
(:mod:`~deepnet_theory.proof.witness`), the optimizer's update is evaluated on entries of
the sizes at hand, sublayers and cross-attentions are counted. Steps and the table's entries are
held against these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import Any

import sympy as sp

from deepnet_theory.definitions.expression import (
    DEPTH,
    UPDATE,
    Call,
    Node,
    Number,
    Operation,
    Power,
    evaluate,
    parts,
)
from deepnet_theory.definitions.optimizer import Optimizer
from deepnet_theory.definitions.placement import STREAM_GAIN, Placement
from deepnet_theory.definitions.rule import Rule, RuleEntry
from deepnet_theory.definitions.selection import Part, Selection
from deepnet_theory.definitions.sublayer import MATRICES, Role, Sublayer
from deepnet_theory.proof.algebra import eta
from deepnet_theory.proof.step import Check, Section, Step
from deepnet_theory.proof.witness import Mixed, Sizes, mixed, of_uses, sizes
from deepnet_theory.sizes.entries import DIGITS, SIZES, Entries, Value, entries, exactly, points
from deepnet_theory.sizes.laws import factors
from deepnet_theory.sizes.update import Update

PRECISION = DIGITS + 20
ZERO, ONE, ROUNDING = Decimal(0), Decimal(1), Decimal(10) ** (10 - PRECISION)
SAME = 1e-6  # two roads to one number
_SIGNS = tuple(product((1, -1), repeat=4))
_DIRECTIONS = tuple(map(Fraction, ("3/5", "-4/5", "5/13", "12/13")))  # g and θ of norm 1
Depth = dict[str, int]
Knobs = tuple[float, float]  # α and β
Regime = Mapping[tuple[str, str], tuple[Node, Node]]  # the texts of a pair, the larger first


# ---- an update on entries ----


def decimal(value: Any) -> Decimal:
    """A number of any kind to ``PRECISION`` digits."""
    if isinstance(value, Fraction):
        return Decimal(value.numerator) / value.denominator
    if isinstance(value, sp.Basic):
        return Decimal(str(sp.N(value, PRECISION)))
    return Decimal(value if isinstance(value, int | float) else str(value))


def length_of(vector: Iterable[Decimal]) -> Decimal:
    """The Euclidean norm."""
    return sum((entry * entry for entry in vector), ZERO).sqrt()


def change(update: Node, g: Value, theta: Value, **constants: Decimal) -> Entries:
    """Δθ at η = 1; raises ``ArithmeticError`` where it is not finite or not real."""
    return entries(update, {"eta": ONE, "g": g, "theta": theta, **constants})


def _vectors(gradient: Decimal, size: Decimal, signs: Sequence[int]) -> tuple[Entries, Entries]:
    """g and θ of given norms."""
    a, b, c, d = (s * decimal(part) for s, part in zip(signs, _DIRECTIONS, strict=True))
    return (gradient * a, gradient * b), (size * c, size * d)


@cache
def _telling_signs(update: Node) -> tuple[int, ...]:
    """Signs of the entries where the update is not 0; max(-theta, 0)*g is at some."""
    return next(s for s in _SIGNS if any(change(update, *_vectors(ONE, ONE, s))))


def decided(node: Node, regime: Regime, used: dict[tuple[str, str], None]) -> Node:
    """An update where the stated regime holds, the larger side in place of the pair.

    Read off the statement alone: a sum or a maximum of both sides is the larger one, a minimum the
    smaller one. ``used`` takes up what is stated of a pair that is there.
    """
    match node:
        case Operation("+" | "-" as sign, left, right) | Call("max" | "min" as sign, (left, right)):
            for texts, (larger, smaller) in regime.items():
                sides = [(_bare(one), one) for one in (left, right)]
                if {bare for bare, _ in sides} == {_bare(larger), _bare(smaller)}:
                    used[texts] = None
                    wanted = _bare(smaller if sign == "min" else larger)
                    place = next(i for i, (bare, _) in enumerate(sides) if bare == wanted)
                    kept = decided(sides[place][1], regime, used)
                    negative = sign == "-" and place == 1
                    return Operation("*", Number(Fraction(-1)), kept) if negative else kept
    match node:
        case Operation(symbol, left, right):
            return Operation(symbol, *(decided(one, regime, used) for one in (left, right)))
        case Power(base, exponent):
            return Power(decided(base, regime, used), exponent)
        case Call(function, arguments):
            return Call(function, tuple(decided(one, regime, used) for one in arguments))
    return node


def _bare(node: Node) -> Node:
    """A side of a regime without its sign and magnitude."""
    match node:
        case Number(value):
            return Number(abs(value))
        case Operation("*", Number(value), right) if value == -1:
            return _bare(right)
        case Call("abs", (inner,)):
            return _bare(inner)
    return node


@cache
def in_regime(optimizer: Optimizer) -> tuple[Node, tuple[tuple[str, str], ...]]:
    """The update in its stated regime, and what of the statement it needs."""
    stated = {pair: tuple(UPDATE.parse(side).root for side in pair) for pair in optimizer.regime}
    used: dict[tuple[str, str], None] = {}
    return decided(optimizer.expression.root, stated, used), tuple(used)  # type: ignore[arg-type]


def regimes_of(optimizer: Optimizer) -> tuple[tuple[str, str], ...]:
    """The stated regimes that an update needs, the larger side first."""
    return in_regime(optimizer)[1]


def step_length(optimizer: Optimizer, gradient: Any, size: Any) -> Decimal:
    """‖Δθ‖ where ‖g‖ and ‖θ‖ are given, over that where both are 1; winning terms only."""
    with localcontext(prec=PRECISION):
        there = _length(optimizer, decimal(gradient), decimal(size))
        return there / _length(optimizer, ONE, ONE)


def degrees(optimizer: Optimizer) -> tuple[float, float]:
    """p and q of an update, from doubling g and θ."""
    doubled = (step_length(optimizer, *sizes) for sizes in ((2, 1), (1, 2)))
    p, q = (math.log2(float(length)) for length in doubled)
    return p, q


@lru_cache(maxsize=4096)
def _length(optimizer: Optimizer, gradient: Decimal, size: Decimal) -> Decimal:
    update = in_regime(optimizer)[0]
    return length_of(change(update, *_vectors(gradient, size, _telling_signs(update))))


@dataclass(frozen=True)
class Practised:
    """The update as a library takes it, with ε and weight decay, at given norms of g and θ."""

    optimizer: Optimizer
    gradient: float
    size: float

    @cached_property
    def _still(self) -> Entries:
        """The update without ε and decay."""
        return self._change()

    @cached_property
    def _start(self) -> tuple[Entries, Entries]:
        signs = _telling_signs(in_regime(self.optimizer)[0])
        return _vectors(Decimal(self.gradient), Decimal(self.size), signs)

    def _change(self, epsilon: float = 0, decay: Decimal = ZERO, along: Decimal = ZERO) -> Entries:
        """The update, ``along`` times the parameter added to the gradient."""
        g, theta = self._start
        moved = (g[0] + along * theta[0], g[1] + along * theta[1])
        root = self.optimizer.practised.root
        return change(root, moved, theta, epsilon=Decimal(epsilon), decay=decay)

    def hidden(self, epsilon: float) -> float:
        """By how much of itself an ε changes the update."""
        with localcontext(prec=PRECISION):
            share = _apart(self._change(epsilon), self._still) / length_of(self._still)
            return float(share) if share > ROUNDING else 0.0

    @cached_property
    def shrinks(self) -> float:
        """The share of the parameter that a weight decay of 1 takes in one step.

        A decay in the gradient moves the parameter by as much of ‖Δθ‖ as λθ is of g. One beside
        the update is seen in the update; it is a part of it.
        """
        with localcontext(prec=PRECISION):
            still, gradient, size = self._still, Decimal(self.gradient), Decimal(self.size)
            length = length_of(still)
            # beside the gradient's size, and beside the update's: where either would show
            if all(self._in_gradient(lam) for lam in (gradient / size, length / size)):
                return float(length / gradient)
            tiny = Decimal("1e-9") * length / size
            return float(_apart(self._change(decay=tiny), still) / tiny / size)

    def _in_gradient(self, lam: Decimal) -> bool:
        """Whether the decay acts as a part of the gradient: u(g, λ) = u(g + λθ, 0).

        In direction alone: a norm in a denominator may count the decay another way.
        """
        one, other = self._change(decay=lam), self._change(along=lam)
        cross = abs(one[0] * other[1] - one[1] * other[0])
        return cross <= Decimal("1e-9") * length_of(one) * length_of(other)


practised = lru_cache(maxsize=4096)(Practised)


def _apart(one: Entries, other: Entries) -> Decimal:
    return length_of(a - b for a, b in zip(one, other, strict=True))


# ---- the degrees of an update, which the algebra of sizes counts and the step checks ----


def homogeneity_step(optimizer: Optimizer, counted: Update) -> Step:
    """The step that states the degrees, checked on exact entries at several scales."""
    t, s, g, theta = sp.symbols("t s g theta", positive=True)
    update = sp.Function("u")
    because = f"degrees of {optimizer.update} counted from its expression"
    if counted.regimes:
        because += f", in the regime {', '.join(map(str, counted.regimes))}"

    def scaled(scale_g: int, scale_theta: int, times: Decimal) -> bool:
        """Whether the update of scaled g and θ is ``times`` that of g and θ."""
        with localcontext(prec=2 * DIGITS):
            least = Decimal(10) ** (5 - DIGITS)
            pairs = zip(points(SIZES[0]), points(SIZES[0], scale_g, scale_theta), strict=True)
            return all(
                abs(other - times * one) <= least * abs(other)
                for pair in pairs
                for one, other in zip(
                    *(exactly(in_regime(optimizer)[0], at) for at in pair), strict=True
                )
            )

    def scales(step: Step) -> bool:
        factor = step.rhs / update(eta, g, theta)  # a monomial cancels by itself
        return (
            step.lhs == update(eta, t * g, s * theta)
            and factor.free_symbols <= {t, s}
            # primes: a wrong p cannot hide behind a wrong q
            and all(scaled(a, b, decimal(factor.subs({t: a, s: b}))) for a, b in ((2, 3), (5, 7)))
        )

    return Section("The optimizer").equal(
        "degrees",
        update(eta, t * g, s * theta),
        t**counted.p * s**counted.q * update(eta, g, theta),
        because,
        source=optimizer.source or "derived here",
        assumptions=("stated-regime",) if counted.regimes else (),
        checks=(Check("the update on exact entries, rescaled", scales),),
        establishes=(t, s, g, theta),
    )


def degrees_of(step: Step) -> tuple[sp.Rational, sp.Rational]:
    """p and q as the degrees' step states them."""
    t, s = sp.symbols("t s", positive=True)
    powers = step.rhs.as_powers_dict()
    return powers.get(t, sp.Integer(0)), powers.get(s, sp.Integer(0))


# ---- one sublayer of a stack at a rule, at one depth ----


@dataclass(frozen=True)
class ExplicitStack:
    """The sublayers of a selection at the α, β, κ and η of a rule.

    ``crossings`` says how the cross-attentions of a later part add up: once and all ``aligned``
    where that grows, as a rule counts them (``published``); or as they do in a step, forward and
    back through the gradient, ``aligned`` or ``independent``.
    """

    selection: Selection
    rule: Rule
    crossings: str = "published"

    def part(self, name: str) -> Part:
        return next(part for part in self.selection.the_stack.parts if part.name == name)

    def at(self, part: str, sublayer: str, depth: Depth, free: Knobs | None = None) -> Place:
        """A sublayer; at ``free`` knobs instead of the rule's, η is 1 and nothing amplifies."""
        key = (part, sublayer, *depth.values(), free)
        if key not in self._places:
            whole = self.part(part)
            one = next(s for s in whole.layer if s.name == sublayer)
            self._places[key] = Place(self, whole, one, depth, free)
        return self._places[key]

    @cached_property
    def _places(self) -> dict[tuple[object, ...], Place]:
        return {}

    @cached_property
    def numbered(self) -> bool:
        """Whether an equation of a placement holds numbers other than 1, which are not measured.

        The witness measures powers of α and β; ``norm(alpha*x + branch(x)/2)`` has constants
        beside them.
        """
        nodes = (n for p in self.selection.placements for n in parts(p.expression.root))
        return any(isinstance(node, Number) and abs(node.value) != 1 for node in nodes)


def explicit_stack(selection: Selection, rule: Rule, crossings: str = "published") -> ExplicitStack:
    """The stack of a rule, which tables of the same rule are measured on: closures meet again."""
    return _stack(selection, rule, crossings, selection.named)


@lru_cache(maxsize=256)
def _stack(
    selection: Selection, rule: Rule, crossings: str, _named: tuple[object, ...]
) -> ExplicitStack:
    return ExplicitStack(selection, rule, crossings)


@dataclass(frozen=True)
class Moved:
    """What one update does through one parameter, per η."""

    size: float
    kappa: float
    gradient: float
    update: float
    share: float


@dataclass(frozen=True)
class Place:
    """The numbers of a sublayer at a depth, none of them from the table's laws."""

    stack: ExplicitStack
    part: Part
    sublayer: Sublayer
    depth: Depth
    free: Knobs | None = None

    @cached_property
    def entry(self) -> RuleEntry:
        return self.stack.rule.entry(self.part.name, self.sublayer.name)

    @cached_property
    def knobs(self) -> Knobs:
        return self.free or self.entry.at(**self.depth)

    @cached_property
    def eta(self) -> float:
        """The learning rate's factor."""
        return 1.0 if self.free else evaluate(DEPTH.parse(self.stack.rule.eta), **self.depth)

    @property
    def placement(self) -> Placement:
        return self.stack.selection.placed(self.sublayer)

    @cached_property
    def degree(self) -> int:
        """How many factors of the branch are scaled matrices; one may be there twice."""
        return len(factors(self.sublayer))

    @cached_property
    def sizes(self) -> Sizes:
        return sizes(self.placement, self.sublayer)

    @cached_property
    def weight(self) -> float:
        """r."""
        return self.sizes.weight.at(*self.knobs)

    @cached_property
    def experts(self) -> Mixed:
        return mixed(self.sublayer)

    def variance(self, place: str) -> float:
        """The mean square of what the norm at a place divides."""
        return self.sizes.variances[place].at(*self.knobs)

    def kappa(self, role: Role | None) -> float:
        """The learning-rate multiplier of a parameter; of all but scaled matrices it is 1."""
        return self.entry.rate_at(**self.depth) if role is Role.SCALED and not self.free else 1.0

    @property
    def layers(self) -> int:
        return self.depth[self.part.depth]

    @cached_property
    def aligned(self) -> float:
        """S·r, the sublayers of a layer listed."""
        return float(sum(self.part.shares)) * self.layers * self.weight

    @cached_property
    def independent(self) -> float:
        """S·r², that of uses which add alike where a matrix has several."""
        return self.aligned / self.uses * self.weight * self.of_uses() ** 2

    @cached_property
    def uses(self) -> float:
        """How many sublayers use one matrix."""
        return evaluate(DEPTH.parse(self.part.uses), **self.depth)

    def of_uses(self, parameter: str = "") -> float:
        """What they are together beside one: the response to a parameter, or the branch's r."""
        if self.part.uses == "1":
            return 1.0
        return float(self.uses ** of_uses(self.placement, self.sublayer)[parameter])

    @cached_property
    def rho(self) -> float:
        """ρ: an update of a scaled matrix over the matrix."""
        moved = self.moved_by(self.sublayer.scaled[0].name, Role.SCALED)
        assert moved is not None
        return moved.update / moved.size

    def order(self, k: int) -> float:
        """What one update of ``k`` of a branch's matrices at once adds to the output."""
        together = self.amplified[0] * self.aligned / self.experts.size * self.experts.together
        return together * math.comb(self.degree, k) * self.rho**k

    @cached_property
    def amplified(self) -> tuple[float, float]:
        """What a later part multiplies a change of the output and the update with."""
        selection = self.stack.selection
        if self.free or self.part is selection.the_stack.parts[-1]:
            return 1.0, 1.0
        size = self._passage(self.depth)
        if self.stack.crossings == "published":
            shallow, deep = (self._passage({**self.depth, "M": n}) for n in (10**3, 10**6))
            return (size if deep > shallow * (1 + SAME) else 1.0), 1.0
        return size, float(step_length(selection.the_optimizer, size, 1))

    def _passage(self, depth: Depth) -> float:
        """A: the cross-attentions of the later part, one after the other."""
        later = self.stack.selection.the_stack.parts[-1]
        reading = next(sublayer.name for sublayer in later.layer if sublayer.reads_memory)
        many = float(later.crossings) * depth[later.depth]
        one = self.stack.at(later.name, reading, depth).weight
        return one * (math.sqrt(many) if self.stack.crossings == "independent" else many)

    def starts_at(self, parameter: str, role: Role | None) -> float:
        """What a parameter starts at: a bias at 0, a gain at 1."""
        if role is Role.SCALED:
            return self.knobs[1]
        starts = self.placement.starts(self.knobs[0])
        learnt = dict(zip(self.placement.learnt, starts, strict=True))
        return learnt.get(parameter, float(role in MATRICES or role is Role.NORM_GAIN))

    def response(self, parameter: str) -> float | None:
        """What the output answers to a parameter; None where it does not."""
        powers, placement = self.sizes.responses[parameter], self.placement
        if powers is None:
            return None
        response = powers.at(*self.knobs) * self.of_uses(parameter)
        if parameter == STREAM_GAIN and placement.final_norm and not placement.per_channel:
            # one number multiplies a stream that the last norm alone divides: each of the
            # sublayers behind adds as much, the uses of one layer alike, others at random
            many = sum(self.part.shares) * self.layers / self.uses
            response *= math.sqrt(many) * self.of_uses()
        return response

    def moved_by(self, parameter: str, role: Role | None = None) -> Moved | None:
        """What an update through a parameter does; None where the output does not respond."""
        if (parameter, role) not in self._moved:
            self._moved[parameter, role] = self._moved_by(parameter, role)
        return self._moved[parameter, role]

    @cached_property
    def _moved(self) -> dict[tuple[str, Role | None], Moved | None]:
        return {}

    def _moved_by(self, parameter: str, role: Role | None) -> Moved | None:
        if (response := self.response(parameter)) is None:
            return None
        kappa = self.kappa(role)
        forward, backward = self.amplified
        inside = parameter in {p.name for p in self.sublayer.parameters}
        size = self.starts_at(parameter, role) or 1.0  # a library takes the ratio of 0 as 1
        reached = response * (self.experts.reached if inside else 1.0)
        stepped = step_length(self.stack.selection.the_optimizer, reached, size)
        update = self.eta * kappa * float(stepped) * backward
        # such parameters, listed: a norm on the sum stands behind all its branches, once
        of_norm = not inside and parameter not in self.placement.learnt
        once = of_norm and self.placement.normalises_sum
        branches = zip(self.part.shares, self.part.parallel, strict=True)
        many = float(sum(share for share, joins in branches if not (once and joins))) / self.uses
        share = many * self.layers * forward * response * update
        return Moved(size, kappa, reached, update, share)
