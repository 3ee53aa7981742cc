"""One kind of sublayer at the rule: S·r, ρ, every order of an update, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb
from typing import Any

import mpmath
import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    S,
    eta,
    exponent_in,
    exponents,
    j,
    k,
    present,
    simplified,
)
from deepnet_theory.symbolic.expectation import output_change
from deepnet_theory.symbolic.laws.optimizer import step_length
from deepnet_theory.symbolic.laws.placement import gradients
from deepnet_theory.symbolic.proof.checks import Point, at_points, number
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.rule.kinds import Balanced, Kind
from deepnet_theory.symbolic.rule.problem import Problem
from deepnet_theory.symbolic.rule.shared import n

SECTION = Section("Beyond the first order")
SELF_CONSISTENCY = Section("Self-consistency", "Su, §Post-hoc analysis")
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
        return {
            symbol: sp.Integer(own if symbol == self.balanced.depth else other)
            for symbol in DEPTHS.values()
        }

    def numbers(self, own: int, other: int) -> Numbers:
        """Depths and knobs at a depth."""
        depths = self.depths(own, other)
        return depths | {s: number(value, depths) for s, value in self.balanced.values.items()}

    def at_depths(self, name: str, expected: Callable[[Numbers], Any]) -> Check:
        """Both sides are at several depths what is computed anew of its numbers there."""

        def points(step: Step) -> Iterator[Point]:
            if not step.rhs.free_symbols <= {*DEPTHS.values()}:
                raise ValueError("a knob is left at the rule")
            for at in (self.numbers(*point) for point in DEPTH_POINTS):
                yield at, expected(at)

        return at_points(name, points)

    def rho_at(self, numbers: Numbers) -> Any:
        """ρ by running the optimizer on entries of the gradient's and the matrix's size."""
        amplified = self.balanced.amplification
        passes = amplified and self.problem.selection.amplification != "published"
        grown = number(amplified.size, numbers) if amplified and passes else 1
        grown *= number(self.balanced.uses, numbers)
        return number(self.multiplier, numbers) * self.stepped(numbers, grown)

    def stepped(self, knobs: Numbers, grown: Any = 1) -> Any:
        """The update of a scaled matrix over the matrix at values of its knobs, without κ.

        ``grown`` is what a later part multiplies the gradient with.
        """
        at = {plain: knobs[own] for plain, own in self.kind.own.items()}
        gradient = grown * number(
            gradients(self.kind.sublayer, self.problem.law(self.kind.sublayer))[0], at
        )
        size = number(self.kind.beta, knobs)
        optimizer = self.problem.selection.the_optimizer
        return number(step_length(optimizer, gradient, size)) / size


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
        checks=(put_in(of),),
        left=S * (1 if together == 1 else n) * of.r**power,
    )


def put_in(of: OfKind) -> Check:
    """Both sides are one monomial in the depths once the solution is put in."""
    return Check(
        "holds once the solution is put in",
        lambda step: not exponents(of.balanced.at_solution(step.lhs / step.rhs)),
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
        checks=(of.at_depths("the update of matrices of these sizes", of.rho_at),),
        left=of.rho,
    )


def increment_identity(of: OfKind) -> Step:
    """The increments of the sublayers add up to c·S·r·ρ."""
    kind, part = of.kind, of.balanced.part
    times = of.multiplier * of.per_matrix
    constant = simplified(kind.increment / (kind.weight * kind.relative))
    because = "" if constant == 1 else f" with c = {constant} of the route"

    def points(_: Step) -> Iterator[Point]:
        route = of.problem.route.increments[kind.sublayer.name].rhs
        for own, other in DEPTH_POINTS:
            at = of.numbers(own, other)
            one = number(route, {**{a: at[b] for a, b in kind.own.items()}, eta: 1})
            count = own * sp.Rational(part.sublayers_per_layer)
            yield {**at, of.rho: of.rho_at(at)}, count * one * number(times, at)

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
        checks=(at_points("the sublayers' increments added up", points),),
        left=output_change() / eta,
    )


def relative_law(of: OfKind) -> Step:
    """ρ as a power of r and of the matrix, at any α and β."""
    p, left = of.problem.degrees.p, of.problem.degrees.q - 1 - of.problem.degrees.p
    kind = of.kind
    constant = simplified(kind.relative / (kind.weight**p * kind.beta**left))

    def points(_: Step) -> Iterator[Point]:
        for a, b in (("3/7", "5/2"), ("11", "1/3"), ("1/9", "2/5")):
            at = {kind.alpha: sp.Rational(a), kind.beta: sp.Rational(b), of.balanced.depth: 12}
            yield at, of.stepped(at, number(of.balanced.uses, at))

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
        checks=(at_points("the update of matrices of many sizes", points),),
        left=of.rho,
    )


def complete_knobs(of: OfKind) -> Step:
    """Whether α and β together reach both S·r and ρ: the determinant of their powers."""
    kind = of.kind
    knobs = (kind.alpha, kind.beta)
    of_sizes = (exponents(size) for size in (kind.weight, kind.relative))
    rows = [[powers.get(knob, sp.Integer(0)) for knob in knobs] for powers in of_sizes]

    def doubled(step: Step) -> bool:
        once: Numbers = {knob: sp.Integer(1) for knob in knobs}
        found = []
        for size in (lambda at: number(kind.weight, at), of.stepped):
            ratios = (size({**once, knob: sp.Integer(2)}) / size(once) for knob in knobs)
            found.append([mpmath.log(ratio, 2) for ratio in ratios])
        expected = found[0][0] * found[1][1] - found[0][1] * found[1][0]
        return all(abs(number(side.doit()) - expected) < 1e-12 for side in (step.lhs, step.rhs))

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
    several = comb(m, order)
    value = simplified(of.forward * several * of.together * of.aligned_at_rule * rho**order)

    def multiplied_out(at: Numbers) -> Any:
        branch = product([[1, of.rho_at(at)]] * m)
        aligned = of.together * of.kind.weight * of.balanced.sublayers * of.forward
        return number(aligned, at) * branch[order]

    return SECTION.equal(
        f"order-{order}-{of.tag}",
        sp.Mul(of.forward, several, of.together, of.balanced.sublayers, of.kind.weight, rho**order),
        present(value),
        f"{several} choice{'s' * (several != 1)} of {order} of the {m} matrices; one update moves "
        "all at once, each by eta*rho of itself, in S branches of weight r; "
        f"it scales as {power_of(value)}",
        uses=(f"increment-identity-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates",),
        checks=(of.at_depths("the branches' products multiplied out", multiplied_out),),
        left=output_change(str(order)) / eta**order,
    )


def orders_across(of: OfKind) -> Step:
    """Products across sublayers bring powers of S·r and of ρ, nothing else."""
    m, rho = of.kind.matrices, present(of.rho_at_rule)
    aligned = of.balanced.sublayers * of.kind.weight
    first = present(simplified(of.aligned_at_rule * rho))

    def points(_: Step) -> Iterator[Point]:
        """The coefficient of r^j η^k in a product of S branches, over how often it stands there."""
        moved = [0, *product([[1, 1]] * m)[1:]]
        for point in DEPTH_POINTS:
            at = of.numbers(*point)
            weight, relative = number(aligned, at), of.rho_at(at)
            for taking in (1, 2, 3):
                for order, often in enumerate(product([moved] * taking)):
                    if (often != 0) != (taking <= order <= m * taking):
                        raise ArithmeticError("other orders than the step says")
                    if often:
                        both = {j: sp.Integer(taking), k: sp.Integer(order)}
                        yield {**at, **both}, weight**taking * relative**order

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
        checks=(at_points("stacks multiplied out", points),),
        left=(S * of.r) ** j * of.rho**k,
    )


def product(factors: list[list[Any]]) -> list[Any]:
    """The coefficients of a product of polynomials."""
    result: list[Any] = [1]
    for factor in factors:
        grown = [0] * (len(result) + len(factor) - 1)
        for a, left in enumerate(result):
            for b, right in enumerate(factor):
                grown[a + b] += left * right
        result = grown
    return result
