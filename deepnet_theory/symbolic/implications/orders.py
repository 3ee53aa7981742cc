"""One kind of sublayer at the rule: S·r, ρ, every order of an update, and its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from typing import Any

import sympy as sp

from deepnet_theory.spec.placement import STREAM_GAIN
from deepnet_theory.symbolic.algebra import (
    DEPTHS,
    Branch,
    S,
    coefficient,
    depth_expression,
    eta,
    exponent_in,
    exponents,
    j,
    k,
    present,
    simplified,
)
from deepnet_theory.symbolic.laws.at_depth import SAME, Knobs, Place
from deepnet_theory.symbolic.laws.placement import AT_REST, P, delta, gains_product, residual
from deepnet_theory.symbolic.notation import output_change
from deepnet_theory.symbolic.parts import n
from deepnet_theory.symbolic.proof.checks import number
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.rule import Balanced, Kind, Problem

SECTION = Section("Beyond the first order")
LEARNT = Section("Learnt multipliers")
SELF_CONSISTENCY = Section("Self-consistency", "Su, §Post-hoc analysis")
_BOTH = DEPTHS.values()
FREE = ((3 / 7, 2.5), (11.0, 1 / 3), (1 / 9, 0.4))  # α and β of no rule
DEPTH_POINTS = ((3, 5), (10_000, 700), (10**8, 10**6))  # its own depth, and any other
Numbers = dict[sp.Expr, Any]


@dataclass(frozen=True)
class OfKind:
    """One kind of sublayer of a part at the rule: what the steps speak of, and its numbers."""

    problem: Problem
    balanced: Balanced
    kind: Kind

    @property
    def tag(self) -> str:
        return self.kind.tag(self.balanced.part.name)

    @property
    def rho(self) -> sp.Symbol:
        return self.kind.symbol("rho")

    @property
    def r(self) -> sp.Symbol:
        return self.kind.symbol("r")

    @property
    def rho_at_rule(self) -> sp.Expr:
        """ρ in the depths."""
        return self.balanced.relative_update(self.kind)

    @property
    def weight_at_rule(self) -> sp.Expr:
        """r in the depths."""
        return self.balanced.at_solution(self.kind.weight)

    @property
    def aligned_at_rule(self) -> sp.Expr:
        """S·r in the depths."""
        return present(self.balanced.sublayers * self.weight_at_rule)

    @property
    def together(self) -> sp.Expr:
        """What experts add up to in line over what they add up to at random."""
        return sp.sqrt(self.kind.sublayer.chosen)

    @property
    def multiplier(self) -> sp.Expr:
        """κ and the learning rate's factor, at the rule: what the user's η is multiplied with."""
        return simplified(self.balanced.rate * self.balanced.rate_of(self.kind))

    @property
    def forward(self) -> sp.Expr:
        """What a later part multiplies a change with on its way to the output."""
        return simplified(self.balanced.factor / self.balanced.backward)

    @property
    def per_matrix(self) -> sp.Expr:
        """What its other uses, and a later part, multiply the update of a matrix with."""
        return simplified(self.balanced.backward * self.balanced.together)

    @property
    def weights(self) -> tuple[str, ...]:
        return tuple(self.problem.route.weights[name].name for name in self.kind.members)

    @property
    def at_rule(self) -> tuple[str, ...]:
        """The steps that the rule rests on."""
        amplified = self.balanced.amplification
        return (
            *self.balanced.conclusion,
            *(s.name for s in (amplified.steps if amplified else ())),
        )

    def depths(self, own: int, other: int) -> Numbers:
        """The depths where its own is one number and any other another."""
        return {s: sp.Integer(own if s == self.balanced.depth else other) for s in _BOTH}

    def numbers(self, depths: Numbers) -> Numbers:
        """Depths, and the knobs there."""
        return depths | {s: number(value, depths) for s, value in self.balanced.values.items()}

    def place(self, own: int, other: int, free: Knobs | None = None) -> Place:
        """An explicit sublayer of its kind there."""
        part = self.balanced.part
        depth = {name: own if name == part.depth else other for name in DEPTHS}
        return self.problem.stack.at(part.name, self.kind.members[0], depth, free)

    def measured(self, of: Callable[[Place], Any], *free: Knobs, constant: bool = False) -> Check:
        """Both sides are what an explicit sublayer shows, at depths of :data:`DEPTH_POINTS`.

        At the rule, or at ``free`` α and β where a step holds of any. ``constant``: up to one.
        """

        def holds(step: Step) -> bool:
            ratios = []
            for own, other in DEPTH_POINTS:
                for knobs in free or (None,):
                    depths, place = self.depths(own, other), self.place(own, other, knobs)
                    left = self.numbers(depths)
                    left[self.rho] = number(self.rho_at_rule, depths)
                    left |= dict(zip((self.kind.alpha, self.kind.beta), knobs or (), strict=False))
                    # no knob is left on the right at the rule, but beside rho
                    right = left if knobs or step.rhs.has(self.rho) else depths
                    sides = number(step.lhs, left), number(step.rhs, right)
                    ratios += [side / of(place) for side in sides]
            one = ratios[0] if constant or self.problem.stack.numbered else 1
            return all(abs(ratio / one - 1) < SAME for ratio in ratios)

        return Check("what an explicit sublayer shows", holds)


def power_of(size: sp.Expr) -> str:
    """The powers of the depths in a monomial, in words."""
    found = {base: power for base, power in exponents(size).items() if base.is_Symbol}
    return "*".join(f"{base}^({found[base]})" for base in sorted(found, key=str)) or "1"


# ---- S·r and S·r²: whether the rule keeps its premises ----

# what S·r^power says of a product of Jacobians; negative: the residual sum is not normalised
_PRODUCTS = {
    1: "branches that are all aligned with the stream multiply a change by up to exp(S*r)",
    2: "along a typical path of independent branches a change is multiplied by exp(-S*r^2), in "
    "root mean square not at all",
    -1: "branches that are all aligned make the stream grow as 1 + S*r",
    -2: "independent branches make the stream grow as sqrt(1 + S*r^2)",
}


def self_consistency(of: OfKind, power: int) -> Step:
    """S·r^power, judged in every depth that it holds."""
    balanced, kind = of.balanced, of.kind
    # n uses of one branch add alike: S/n distinct ones of n*r each
    together = balanced.uses ** (power - 1)
    value = balanced.sublayers * together * of.weight_at_rule**power
    others = value.free_symbols - {balanced.depth}  # an encoder's constants may hold both depths
    behaviour = " and ".join(_behaviour(value, depth) for depth in (balanced.depth, *others))
    shown = balanced.part.squares if power > 1 else "S*r"
    return SELF_CONSISTENCY.equal(
        f"self-consistency-{power}-{of.tag}",
        balanced.sublayers * together * kind.weight**power,
        present(value),
        f"r = {present(of.weight_at_rule)}; {shown} {behaviour}; "
        f"{_PRODUCTS[power if of.problem.law(of.kind.sublayer).normalised else -power]}",
        uses=(f"sublayers-{balanced.part.name}", *of.weights, *balanced.conclusion),
        checks=(of.measured(lambda at: at.aligned if power == 1 else at.independent),),
        left=S * (1 if together == 1 else n) * of.r**power,
    )


def _behaviour(value: sp.Expr, depth: sp.Symbol) -> str:
    growth = exponent_in(value, depth)
    state = "grows" if growth > 0 else ("vanishes" if growth < 0 else "stays bounded")
    return f"{state} with depth as {depth}^({growth})"


# ---- S·r and ρ, the two numbers of the first-order balance, and which knobs reach both ----


def relative_update(of: OfKind) -> Step:
    """ρ at the rule, by the update of a matrix of its size under a gradient of its size."""
    return SECTION.equal(
        f"relative-update-{of.tag}",
        sp.Mul(simplified(of.multiplier * of.per_matrix), of.kind.relative),
        present(of.rho_at_rule),
        "rho = |dW|/(eta*|W|) of a scaled matrix, its gradient and its size put in the "
        f"update; it scales as {power_of(of.rho_at_rule)}",
        uses=("degrees", *of.at_rule),
        checks=(of.measured(lambda at: at.rho),),
        left=of.rho,
    )


def increment_identity(of: OfKind) -> Step:
    """The increments of the sublayers add up to c·S·r·ρ."""
    kind, part = of.kind, of.balanced.part
    times = of.multiplier * of.per_matrix
    constant = simplified(kind.increment / (kind.weight * kind.relative))
    because = "" if constant == 1 else f" with c = {constant} of the route"

    def added_up(at: Place) -> Any:
        knobs = dict(zip((kind.alpha, kind.beta), at.knobs, strict=True))
        return number(constant, knobs) * at.aligned * at.rho

    return SECTION.equal(
        f"increment-identity-{of.tag}",
        of.balanced.sublayers * times * kind.increment,
        sp.Mul(constant, of.balanced.sublayers, kind.weight, of.rho),
        "the increment of a sublayer is c*r*rho, since its matrices respond as "
        f"r/|W|{because}: the first-order balance is in S*r and rho alone",
        uses=(
            f"sublayers-{part.name}",
            *kind.rests_on,
            *of.weights,
            f"relative-update-{of.tag}",
        ),
        establishes=(of.rho,),
        checks=(of.measured(added_up),),
        left=output_change() / eta,
    )


def relative_law(of: OfKind) -> Step:
    """ρ as a power of r and of the matrix, at any α and β."""
    p, left = of.problem.degrees.p, of.problem.degrees.q - 1 - of.problem.degrees.p
    kind = of.kind
    constant = simplified(kind.relative / (kind.weight**p * kind.beta**left))

    powers = (sp.Pow(kind.weight, p, evaluate=False), sp.Pow(kind.beta, left, evaluate=False))
    times = () if constant == 1 else (constant,)
    together = () if of.balanced.together == 1 else (of.balanced.together,)
    shown = "" if not together else f"n_u^({p})*"
    return SECTION.equal(
        f"relative-law-{of.tag}",
        sp.Mul(*together, kind.relative),
        sp.Mul(*together, *times, *powers, evaluate=False),
        f"the gradient of a scaled matrix is r/|W|: rho = kappa*{shown}r^({p})*|W|^({left})"
        + (f", times {constant} of experts" if times else ""),
        uses=(*of.weights, f"relative-update-{of.tag}"),
        checks=(of.measured(lambda at: at.rho, *FREE),),
        left=of.rho,
    )


def complete_knobs(of: OfKind) -> Step:
    """Whether α and β together reach both S·r and ρ: the determinant of their powers."""
    kind = of.kind
    knobs = (kind.alpha, kind.beta)
    of_sizes = (exponents(size) for size in (kind.weight, kind.relative))
    rows = [[powers.get(knob, sp.Integer(0)) for knob in knobs] for powers in of_sizes]

    def doubled(step: Step) -> bool:
        once, *twice = (of.place(3, 5, free) for free in ((1, 1), (2, 1), (1, 2)))
        (a, b), (c, d) = (
            [math.log2(getattr(at, size) / getattr(once, size)) for at in twice]
            for size in ("weight", "rho")
        )
        return all(abs(side.doit() - (a * d - b * c)) < SAME for side in (step.lhs, step.rhs))

    return SECTION.equal(
        f"complete-knobs-{of.tag}",
        sp.Determinant(sp.ImmutableMatrix(rows)),
        -rows[0][0] * (1 + of.problem.degrees.p - of.problem.degrees.q),
        f"the powers of alpha and beta in r and in rho; {_how_many(of, *rows[0])}",
        uses=(f"relative-law-{of.tag}",),
        checks=(Check("the powers by doubling alpha and beta", doubled),),
    )


def _how_many(of: OfKind, of_alpha: sp.Expr, of_beta: sp.Expr) -> str:
    """How S·r and ρ are both made of order one, from the one law of ρ."""
    p, left = of.problem.degrees.p, 1 + of.problem.degrees.p - of.problem.degrees.q
    uses = "" if of.balanced.together == 1 else f"*n_u^({-p})"
    if of_alpha != 0 and left != 0:
        says = "not 0: one alpha and beta keep every order, without kappa"
    elif of_alpha != 0 and p == 0:
        says = "0, and rho is of order one: every order is kept on a whole curve, without kappa"
    elif of_alpha != 0:
        says = f"0, and rho scales as r^({p}): every order is kept with kappa = S^({p}){uses} alone"
    elif of_beta == 0:
        says = "0: neither knob reaches S*r"
    elif p * of_beta == left:
        says = "0, because the placement has no alpha: beta alone keeps every order, without kappa"
    else:
        power = p - left / of_beta
        says = (
            "0, because the placement has no alpha: beta keeps every order with "
            f"kappa = S^({power}){uses} alone"
        )
    if of.kind.matrices > 1:
        return says
    return (
        f"{says}; with one matrix a branch there is no order beyond the first, and rho is left "
        "to decide: S*r = 1/rho, what the branches weigh at the start"
    )


# ---- every order of one step: several matrices of one branch, and of several branches ----


def order_within(of: OfKind, order: int) -> Step:
    """The size of one order of η within a branch: ``order`` of its matrices moved at once."""
    m, rho = of.kind.matrices, of.rho_at_rule
    several = math.comb(m, order)
    value = simplified(of.forward * several * of.together * of.aligned_at_rule * rho**order)

    return SECTION.equal(
        f"order-{order}-{of.tag}",
        sp.Mul(of.forward, several, of.together, of.balanced.sublayers, of.kind.weight, rho**order),
        present(value),
        f"{several} choice{'s' * (several != 1)} of {order} of the {m} matrices; one update moves "
        "all at once, each by eta*rho of itself, in S branches of weight r; "
        f"it scales as {power_of(value)}",
        uses=(f"increment-identity-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates",),
        checks=(of.measured(lambda at: at.order(order)),),
        left=output_change(str(order)) / eta**order,
    )


def orders_across(of: OfKind) -> Step:
    """Products across sublayers bring powers of S·r and of ρ, nothing else."""
    m, rho = of.kind.matrices, present(of.rho_at_rule)
    aligned = of.balanced.sublayers * of.kind.weight
    first = present(simplified(of.aligned_at_rule * rho))

    def products(step: Step) -> bool:
        """Of 1 to 3 sublayers, at each of their orders."""
        return all(
            of.measured(lambda at: at.aligned**taking * at.rho**order).holds(  # noqa: B023
                replace(step, lhs=step.lhs.subs(both), rhs=step.rhs.subs(both))
            )
            for taking in (1, 2, 3)
            for order in range(taking, m * taking + 1)
            if (both := {j: taking, k: order})
        )

    return SECTION.equal(
        f"orders-across-{of.tag}",
        aligned**j * rho**k,
        sp.Mul(first**j, rho ** (k - j)),
        "products across j sublayers, to order n from j to "
        f"{m}*j: each sublayer that takes part moves a matrix at least, "
        "and what it moves beyond that is a power of rho",
        uses=(f"increment-identity-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates", "near-identity"),
        establishes=(j, k),
        checks=(Check("products of explicit sublayers", products),),
        left=(S * of.r) ** j * of.rho**k,
    )


# ---- learnt multipliers: a number that multiplies the branch, or the stream, is a parameter ----

#   d(x + lambda*P*B)/d(lambda) = P*B on the branch moves the output by the branch before it. One
#   number on the whole stream changes no direction: the norm at the end sees it beside what is
#   added later, sqrt(S)*r, for d/d(lambda) of (lambda*x + w*b)/|lambda*x + w*b| is w/(1 + w^2)
#   across, for a unit x at right angles to b, at lambda = 1.


def multiplier_steps(of: OfKind) -> Iterator[Step]:
    """Response, share and learning rate of every learnt multiplier of the placement."""
    placement, balanced = of.problem.selection.placed(of.kind.sublayer), of.balanced
    p, q = of.problem.degrees.p, of.problem.degrees.q
    uses, squares = depth_expression(balanced.part.uses), balanced.part.squares
    for index, name in enumerate(placement.learnt):
        start, derivative = _derivative(of, index)
        along = name == STREAM_GAIN and not placement.per_channel
        if along:
            behind = placement.final_norm and not placement.normalises_sum
            derivative = (sp.sqrt(balanced.sublayers * uses) if behind else 1) * of.kind.weight
        derivative = uses * derivative
        share, size = partial(_share, name), present(simplified(derivative))
        yield LEARNT.equal(
            f"{name}-response-{of.tag}",
            derivative,
            size,
            "one number on the whole stream leaves its direction: what it moves is the stream "
            f"beside what is added to it, S branches behind a multiplier, the root of {squares}"
            if along
            else "the derivative in a learnt multiplier is what it multiplies",
            uses=(f"sublayers-{balanced.part.name}", *of.weights),
            assumptions=("near-identity",),
            checks=(of.measured(methodcaller("response", name), *FREE),),
        )
        count = balanced.sublayers / uses * balanced.factor * balanced.rate
        moved = count * size ** (1 + p) * (start**q if start != 0 else 1)
        at_rule = balanced.at_solution(moved)
        yield LEARNT.equal(
            f"{name}-share-{of.tag}",
            moved,
            present(at_rule),
            "S multipliers, each stepped under the gradient that its response makes, move the "
            "output by this share of the learning rate, where the scaled matrices move it by 1",
            uses=(f"{name}-response-{of.tag}", *of.at_rule),
            assumptions=("aligned-updates",),
            checks=(of.measured(share),),
        )
        if exponent_in(at_rule, balanced.depth) > 0:
            yield LEARNT.equal(
                f"{name}-rate-{of.tag}",
                1 / moved,
                present(simplified(1 / at_rule)),
                "its share grows with the depth: its learning rate takes the inverse",
                uses=(f"{name}-share-{of.tag}", *of.at_rule),
                checks=(of.measured(lambda at: 1 / share(at)),),  # noqa: B023
            )


def _share(name: str, at: Place) -> float:
    moved = at.moved_by(name)
    assert moved is not None
    return moved.share


def _derivative(of: OfKind, index: int) -> tuple[sp.Expr, sp.Expr]:
    """What a multiplier starts at, and the size of the output's derivative in it."""
    starts: list[sp.Expr] = []

    def learnt(start: sp.Expr) -> sp.Expr:
        starts.append(sp.sympify(start))
        return start + (delta if len(starts) == index + 1 else 0)

    output = residual(
        of.problem.selection.placed(of.kind.sublayer), lambda y: P * Branch(y), learnt=learnt
    )
    moved = coefficient(sp.expand_mul(output.diff(delta)).xreplace(AT_REST))
    own = {**of.kind.own, P: gains_product(of.kind.sublayer).xreplace(of.kind.own)}
    return starts[index].xreplace(of.kind.own), moved.xreplace(own)
