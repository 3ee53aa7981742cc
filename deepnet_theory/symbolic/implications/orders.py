"""One kind of sublayer at the rule, and its numbers at any depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Any

import mpmath
import sympy as sp

from deepnet_theory.spec.sublayer import Role
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    eta,
    exponents,
    j,
    k,
    part_symbol,
    present,
    simplified,
)
from deepnet_theory.symbolic.laws.optimizer import step_length
from deepnet_theory.symbolic.laws.placement import terms
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.rule.kinds import Balanced, Kind
from deepnet_theory.symbolic.rule.problem import Problem

SECTION = Section("Beyond the first order")
DEPTH_POINTS = ((3, 5), (10_000, 700), (10**8, 10**6))  # its own depth, and any other
DIGITS = 40


@dataclass(frozen=True)
class OfKind:
    """One kind of sublayer of a part at the rule: what the steps speak of, and its numbers."""

    problem: Problem
    balanced: Balanced
    kind: Kind

    @property
    def tag(self) -> str:
        """What the names of its steps end in."""
        return self.kind.tag(self.balanced.part.name)

    @property
    def depth(self) -> sp.Symbol:
        """The symbol of its part's depth."""
        return DEPTHS[self.balanced.part.depth]

    @property
    def rho(self) -> sp.Symbol:
        """The symbol of the relative update."""
        parts = len(self.problem.selection.the_stack.parts)
        return part_symbol("rho", self.balanced.part.name, parts, self.kind.name)

    @property
    def multiplier(self) -> sp.Expr:
        """κ and the learning rate's factor, at the rule: what the user's η is multiplied with."""
        return simplified(self.balanced.rate * self.balanced.rate_of(self.kind))

    @property
    def weights(self) -> tuple[str, ...]:
        """The steps that find its branch weights."""
        return tuple(self.problem.route.weights[name].name for name in self.kind.members)

    @property
    def at_rule(self) -> tuple[str, ...]:
        """The steps that the rule rests on."""
        amplified = self.balanced.amplification
        passed = () if amplified is None else tuple(step.name for step in amplified.steps)
        return (*self.balanced.conclusion, *passed)

    @property
    def has_degrees(self) -> bool:
        """Whether the route states the optimizer's degrees as a step."""
        return any(step.name == "degrees" for step in self.problem.route.steps)

    def depths(self, point: tuple[int, int]) -> dict[sp.Symbol, Any]:
        """The depths at a point: its own depth, and any other."""
        own, other = point
        return {
            symbol: sp.Integer(own if symbol == self.depth else other) for symbol in DEPTHS.values()
        }

    def numbers(self, point: tuple[int, int]) -> dict[sp.Symbol, Any]:
        """Depths and knobs at a depth."""
        depths = self.depths(point)
        knobs = {
            symbol: sp.N(value.xreplace(depths), 2 * DIGITS)
            for symbol, value in self.balanced.values.items()
        }
        return {**depths, **knobs}

    def rho_at(self, point: tuple[int, int]) -> sp.Expr:
        """ρ by running the optimizer on entries of the gradient's and the matrix's size."""
        numbers = self.numbers(point)
        amplified = self.balanced.amplification
        passes = amplified is not None and amplified.form != "published"
        grown = amplified.size.xreplace(numbers) if amplified and passes else sp.Integer(1)
        times = self.multiplier.xreplace(numbers)
        return sp.N(times * self.stepped(numbers, grown), DIGITS)

    def stepped(self, knobs: dict[sp.Symbol, Any], grown: sp.Expr = sp.S.One) -> sp.Expr:
        """The update of a scaled matrix over the matrix at values of its knobs, without κ.

        ``grown`` is what a later part multiplies the gradient with.
        """
        found = terms(self.kind.sublayer, self.problem.law)
        term = next(t for t in found if t.role is Role.SCALED)
        gradient, size = (
            sp.sympify(e).xreplace(self.kind.own).xreplace(knobs)
            for e in (term.gradient, term.size)
        )
        length = step_length(self.problem.selection.the_optimizer, grown * gradient, size)
        return sp.Float(str(length), 60) / size


def power_of(size: sp.Expr) -> str:
    """The powers of the depths in a monomial, in words."""
    found = {base: power for base, power in exponents(size).items() if base.is_Symbol}
    return "*".join(f"{base}^({found[base]})" for base in sorted(found, key=str)) or "1"


def near(side: sp.Expr, expected: Any, numbers: dict[sp.Symbol, Any]) -> bool:
    """Whether an expression has a value, to 25 digits."""
    value = sp.N(side.xreplace(numbers), DIGITS)
    return bool(abs(value - expected) <= sp.Float("1e-25") * abs(expected))


def value(expression: sp.Expr, numbers: dict[sp.Symbol, Any]) -> Any:
    """The number at the working precision of mpmath, every node computed in it.

    SymPy never meets the numbers: it would factor a root of 4*10^200 + 1, and give up. Nor does
    Python: in code printed for it, an unevaluated 3**(-1) is a quotient of integers, in double
    precision.
    """
    leaf = numbers.get(expression, expression)
    if leaf.is_Atom:
        return mpmath.mpmathify(sp.N(leaf, mpmath.mp.dps))
    return _COMPUTED[expression.func](*(value(node, numbers) for node in expression.args))


_COMPUTED: dict[type[sp.Expr], Callable[..., Any]] = {
    sp.Add: lambda *terms: mpmath.fsum(terms),
    sp.Mul: lambda *factors: mpmath.fprod(factors),
    sp.Pow: mpmath.power,
    sp.exp: mpmath.exp,
}


# ---- S·r and ρ, the two numbers of the first-order balance, and which knobs reach both ----


def relative_update(of: OfKind) -> Step:
    """ρ at the rule, by the update of a matrix of its size under a gradient of its size."""
    value = of.balanced.relative_update(of.kind)
    times = simplified(of.multiplier * of.balanced.backward)
    return SECTION.equal(
        f"relative-update-{of.tag}",
        sp.Mul(times, of.kind.relative),
        present(value),
        (
            "rho = |dW|/(eta*|W|) of a scaled matrix, its gradient and its size put in the "
            f"update; it goes as {power_of(value)}"
        ),
        uses=("degrees", *of.at_rule) if of.has_degrees else of.at_rule,
        checks=(Check("the update of matrices of these sizes", partial(_as_stepped, of)),),
    )


def _as_stepped(of: OfKind, step: Step) -> bool:
    return step.rhs.free_symbols <= set(DEPTHS.values()) and all(
        near(side, of.rho_at(point), of.numbers(point))
        for point in DEPTH_POINTS
        for side in (step.lhs, step.rhs)
    )


def increment_identity(of: OfKind) -> Step:
    """The increments of the sublayers add up to c·S·r·ρ."""
    kind = of.kind
    constant = "" if kind.constant == 1 else f" with c = {kind.constant} of the route"
    return SECTION.equal(
        f"increment-identity-{of.tag}",
        of.balanced.sublayers * of.multiplier * of.balanced.backward * kind.increment,
        sp.Mul(kind.constant, of.balanced.sublayers, kind.weight, of.rho),
        (
            "the increment of a sublayer is c*r*rho, since its matrices respond as "
            f"r/|W|{constant}: the first-order balance is in S*r and rho alone"
        ),
        uses=(
            f"sublayers-{of.balanced.part.name}",
            *kind.rests_on,
            *of.weights,
            f"relative-update-{of.tag}",
        ),
        establishes=(of.rho,),
        checks=(Check("the sublayers' increments added up", partial(_added_up, of)),),
    )


def _added_up(of: OfKind, step: Step) -> bool:
    """Both sides against the route's increments and the update, run anew."""
    for layers, other in DEPTH_POINTS:
        numbers = of.numbers((layers, other))
        at = {**numbers, of.rho: of.rho_at((layers, other))}
        knobs = {own: at[symbol] for own, symbol in of.kind.own.items()}
        route = of.problem.route.increments[of.kind.sublayer.name]
        one = route.value.xreplace({**knobs, eta: sp.Integer(1)})
        times = of.multiplier * of.balanced.backward
        count = layers * len(of.balanced.part.layer)
        total = sp.N((count * one * times).xreplace(at), DIGITS)
        if not all(near(side, total, at) for side in (step.lhs, step.rhs)):
            return False
    return True


def relative_law(of: OfKind) -> Step:
    """ρ as a power of r and of the matrix, at any α and β."""
    p, q = of.problem.degrees.p, of.problem.degrees.q
    kind = of.kind
    return SECTION.equal(
        f"relative-law-{of.tag}",
        kind.relative,
        sp.Mul(
            sp.Pow(kind.weight, p, evaluate=False),
            sp.Pow(kind.beta, q - 1 - p, evaluate=False),
            evaluate=False,
        ),
        f"the gradient of a scaled matrix is r/|W|: rho = kappa*r^({p})*|W|^({q - 1 - p})",
        uses=(*of.weights, f"relative-update-{of.tag}"),
        checks=(Check("the update of matrices of many sizes", partial(_at_many_sizes, of)),),
    )


def _at_many_sizes(of: OfKind, step: Step) -> bool:
    for a, b in (("3/7", "5/2"), ("11", "1/3"), ("1/9", "2/5")):
        at = {of.kind.alpha: sp.Rational(a), of.kind.beta: sp.Rational(b)}
        expected = sp.N(of.stepped(at), DIGITS)
        if not all(near(side, expected, at) for side in (step.lhs, step.rhs)):
            return False
    return True


def complete_knobs(of: OfKind) -> Step:
    """Whether α and β together reach both S·r and ρ: the determinant of their powers."""
    kind = of.kind
    knobs = (kind.alpha, kind.beta)
    rows = [
        [exponents(size).get(knob, sp.Integer(0)) for knob in knobs]
        for size in (kind.weight, kind.relative)
    ]
    p, q = of.problem.degrees.p, of.problem.degrees.q
    return SECTION.equal(
        f"complete-knobs-{of.tag}",
        sp.Determinant(sp.ImmutableMatrix(rows)),
        -rows[0][0] * (1 + p - q),
        f"the powers of alpha and beta in r and in rho; {_how_many(of, *rows[0])}",
        uses=(f"relative-law-{of.tag}",),
        checks=(Check("the powers by doubling alpha and beta", partial(_doubled, of)),),
    )


def _how_many(of: OfKind, of_alpha: sp.Expr, of_beta: sp.Expr) -> str:
    """How S·r and ρ are both made of order one, from the one law of ρ."""
    p, left = of.problem.degrees.p, 1 + of.problem.degrees.p - of.problem.degrees.q
    if of_alpha != 0 and left != 0:
        told = "not 0: one alpha and beta keep every order, without kappa"
    elif of_alpha != 0 and p == 0:
        told = "0, and rho is of order one: every order is kept on a whole curve, without kappa"
    elif of_alpha != 0:
        told = f"0, and rho goes as r^({p}): every order is kept with kappa = S^({p}) alone"
    elif of_beta == 0:
        told = "0: neither knob reaches S*r"
    elif p * of_beta == left:
        told = "0, for want of alpha: beta alone keeps every order, without kappa"
    else:
        power = p - left / of_beta
        told = f"0, for want of alpha: beta keeps every order with kappa = S^({power}) alone"
    if of.kind.matrices > 1:
        return told
    return (
        f"{told}; with one matrix a branch there is no order beyond the first, and rho is left "
        "to decide: S*r = 1/rho, what the branches weigh at the start"
    )


def _doubled(of: OfKind, step: Step) -> bool:
    kind = of.kind
    plain = {kind.alpha: sp.Integer(1), kind.beta: sp.Integer(1)}
    rows = []
    for size in (lambda at: kind.weight.xreplace(at), of.stepped):
        found = [size({**plain, knob: sp.Integer(2)}) / size(plain) for knob in plain]
        rows.append([sp.N(sp.log(ratio, 2), DIGITS) for ratio in found])
    expected = rows[0][0] * rows[1][1] - rows[0][1] * rows[1][0]
    return all(
        not side.free_symbols and abs(sp.N(side.doit(), DIGITS) - expected) < sp.Float("1e-25")
        for side in (step.lhs, step.rhs)
    )


# ---- every order of one step: several matrices of one branch, and of several branches ----


def order_within(of: OfKind, order: int) -> Step:
    """The size of one order of η within a branch: so many of its matrices moved at once."""
    several = comb(of.kind.matrices, order)
    forward = simplified(of.balanced.factor / of.balanced.backward)
    rho = of.balanced.relative_update(of.kind)
    value = simplified(forward * several * of.balanced.self_consistency(of.kind, 1) * rho**order)
    return SECTION.equal(
        f"order-{order}-{of.tag}",
        sp.Mul(forward, several, of.balanced.sublayers, of.kind.weight, rho**order),
        present(value),
        (
            f"order {order}: {several} choice{'s' * (several != 1)} of {order} of the "
            f"{of.kind.matrices} matrices that one update moves at once, each by eta*rho of "
            f"itself, in S branches of weight r; it goes as {power_of(value)}"
        ),
        uses=(f"increment-identity-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates",),
        checks=(Check("the branches' products multiplied out", _multiplied_out(of, order)),),
    )


def _multiplied_out(of: OfKind, order: int) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        for point in DEPTH_POINTS:
            numbers, rho = of.numbers(point), of.rho_at(point)
            branch = product([[sp.Integer(1), rho]] * of.kind.matrices)
            forward = of.balanced.factor / of.balanced.backward
            weight = of.kind.weight * of.balanced.sublayers * forward
            expected = sp.N(weight.xreplace(numbers), DIGITS) * branch[order]
            if not all(near(side, expected, numbers) for side in (step.lhs, step.rhs)):
                return False
        return True

    return holds


def orders_across(of: OfKind) -> Step:
    """Products across sublayers bring powers of S·r and of ρ, nothing else."""
    rho = present(of.balanced.relative_update(of.kind))
    aligned = present(of.balanced.self_consistency(of.kind, 1))
    first = present(simplified(aligned * rho))
    return SECTION.equal(
        f"orders-across-{of.tag}",
        (of.balanced.sublayers * of.kind.weight) ** j * rho**k,
        sp.Mul(first**j, rho ** (k - j)),
        (
            "products across j sublayers, to order k from j to "
            f"{of.kind.matrices}*j: each sublayer that takes part moves a matrix at least, "
            "and what it moves beyond that is a power of rho"
        ),
        uses=(f"increment-identity-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates", "near-identity"),
        establishes=(j, k),
        checks=(Check("stacks multiplied out", partial(_stacks, of)),),
    )


def _stacks(of: OfKind, step: Step) -> bool:
    """The coefficient of r^j η^k in a product of S branches, over how often it stands there."""
    m = of.kind.matrices
    moved = product([[sp.Integer(1), sp.Integer(1)]] * m)
    moved[0] = sp.Integer(0)
    for point in DEPTH_POINTS:
        numbers, rho = of.numbers(point), of.rho_at(point)
        weight = sp.N((of.kind.weight * of.balanced.sublayers).xreplace(numbers), DIGITS)
        for taking in (1, 2, 3):
            ways = product([moved] * taking)
            for order, often in enumerate(ways):
                if (often != 0) != (taking <= order <= m * taking):
                    return False
                if often == 0:
                    continue
                expected = weight**taking * rho**order
                at = {**numbers, j: sp.Integer(taking), k: sp.Integer(order)}
                if not all(near(side, expected, at) for side in (step.lhs, step.rhs)):
                    return False
    return True


def product(factors: list[list[Any]]) -> list[Any]:
    """The coefficients of a product of polynomials."""
    result: list[Any] = [sp.Integer(1)]
    for factor in factors:
        grown = [sp.Integer(0)] * (len(result) + len(factor) - 1)
        for a, left in enumerate(result):
            for b, right in enumerate(factor):
                grown[a + b] += left * right
        result = grown
    return result
