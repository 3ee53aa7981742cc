"""Many steps: the bound of aligned ones, and the rate at which they break the model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import mpmath
import sympy as sp

from deepnet_theory.sizes.norm_epsilon import WORDS, of_entry
from deepnet_theory.spec.rule import RuleEntry
from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    depth_expression,
    eta,
    exponent_in,
    in_sympy,
    present,
    rational,
    simplified,
    text,
)
from deepnet_theory.symbolic.implications.orders import (
    DIGITS,
    SECTION,
    OfKind,
    complete_knobs,
    increment_identity,
    order_within,
    orders_across,
    power_of,
    relative_law,
    relative_update,
    value,
)
from deepnet_theory.symbolic.proof.step import Check, Regime, Step
from deepnet_theory.symbolic.rule.kinds import Balanced
from deepnet_theory.symbolic.rule.problem import Problem

tau = sp.Symbol("tau", positive=True)  # so many aligned steps


def bound_of_aligned_steps(of: OfKind) -> Step:
    """So many aligned steps move a stack by no more than this."""
    balanced, m = of.balanced, of.kind.matrices
    rho, weight = balanced.relative_update(of.kind), balanced.at_solution(of.kind.weight)
    count = balanced.sublayers
    grown = (1 + tau * eta * present(rho)) ** m
    aligned = present(count * weight)
    return SECTION.at_most(
        f"aligned-steps-{of.tag}",
        (1 + present(weight) * grown) ** count - (1 + present(weight)) ** count,
        sp.exp(aligned) * (sp.exp(aligned * (grown - 1)) - 1),
        (
            "tau steps of the first one's size, all aligned, make every matrix 1 + "
            "tau*eta*rho times as large at most; a stack of S branches of norm r then moves "
            "by no more than the difference of these products, and 1 + x is at most exp(x)"
        ),
        uses=(f"increment-identity-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates",),
        establishes=(tau, eta),
        checks=(
            Check("both sides at many depths", partial(_bounds, of)),
            Check("explicit products of matrices", partial(_explicit_products, of)),
        ),
    )


def _bounds(of: OfKind, step: Step) -> bool:
    """The left by logarithms; the bound holds, no larger than a constant asks as r vanishes."""
    return all(_bounds_at(of, layers, step) for layers in (1, 3, 1000, 10**48))


def _bounds_at(of: OfKind, layers: int, step: Step) -> bool:
    numbers = of.depths((layers, layers))
    weight = value(of.balanced.at_solution(of.kind.weight), numbers)
    lost = max(0, -int(mpmath.log10(weight)))  # digits of the left, which is of 1 + weight
    with mpmath.workdps(200 + lost):
        rho = value(of.balanced.relative_update(of.kind), numbers)
        weight = value(of.balanced.at_solution(of.kind.weight), numbers)
        count = value(of.balanced.sublayers, numbers)
        moved = min(mpmath.mpf(1), 1 / rho)
        m = of.kind.matrices
        for size in (moved / 10, moved):
            at = {**numbers, tau: sp.Integer(1), eta: sp.Float(str(size), mpmath.mp.dps)}
            bound = value(step.rhs, at)
            grown = mpmath.log1p(weight * (1 + size * rho) ** m)
            was = mpmath.exp(count * mpmath.log1p(weight))
            exact = was * mpmath.expm1(count * (grown - mpmath.log1p(weight)))
            if abs(value(step.lhs, at) / exact - 1) > mpmath.mpf(10) ** -50:
                return False
            if bound < exact * (1 - mpmath.mpf(10) ** -50):
                return False
            if layers > 1000 and count * weight**2 <= 1 and bound > exact * 100:
                return False
    return True


def _explicit_products(of: OfKind, step: Step) -> bool:
    """Orthogonal W and ΔW = τηρV, V orthogonal: the largest that a step may be."""
    with mpmath.workdps(30):
        numbers = of.depths((2, 2))
        rho = value(of.balanced.relative_update(of.kind), numbers)
        weight = value(of.balanced.at_solution(of.kind.weight), numbers)
        count = int(value(of.balanced.sublayers, numbers))
        for size in ("0.1", "1"):
            at = {**numbers, tau: sp.Integer(2), eta: sp.Float(size, 30) / 2}
            for aligned in (True, False):
                moved = _moved(count, of.kind.matrices, weight, mpmath.mpf(size) * rho, aligned)
                if moved > value(step.rhs, at) * (1 + mpmath.mpf(10) ** -20):
                    return False
    return True


def failing_rate(of: OfKind) -> Step:
    """How the rate falls with depth at which aligned steps break the model."""
    rho = present(of.balanced.relative_update(of.kind))
    aligned = present(of.balanced.self_consistency(of.kind, 1))
    root = sp.Rational(1, of.kind.matrices)
    grows = exponent_in(rho, of.depth) > 0
    failing = present(simplified(rho ** (root - 1))) if grows else sp.Integer(1)
    return SECTION.order(
        f"failing-rate-{of.tag}",
        ((1 + 1 / aligned) ** root - 1) / rho,
        failing,
        (
            "tau*eta at which S*r*((1 + tau*eta*rho)^m - 1) is 1, m = "
            f"{of.kind.matrices}: "
            + (
                f"as rho grows it falls, by {power_of(failing)}, after however many steps"
                if grows and of.kind.matrices > 1
                else "it does not fall with the depth"
            )
        ),
        regime=Regime(of.depth, sp.oo),
        uses=(f"aligned-steps-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates",),
        checks=(Check("the slope at depths of 10^100 and more", partial(_slope, of)),),
    )


def _slope(of: OfKind, step: Step) -> bool:
    with mpmath.workdps(700):
        values = []
        for power in (100, 200):
            numbers = {d: sp.Integer(7) for d in DEPTHS.values()}
            numbers[of.depth] = sp.Integer(10) ** power
            values.append([mpmath.log10(value(s, numbers)) for s in (step.lhs, step.rhs)])
        slopes = [(after - before) / 100 for before, after in zip(*values, strict=True)]
        return bool(abs(slopes[0] - slopes[1]) < mpmath.mpf("1e-2"))


def _moved(count: int, matrices: int, weight: Any, step: Any, aligned: bool) -> Any:
    """‖F_τ − F_0‖ of an explicit stack of branches, on a vector of norm 1; ``step`` is τηρ.

    Aligned, every matrix grows along itself; else it moves towards another direction.
    """
    still = moved = mpmath.matrix([1, 0, 0])
    for layer in range(count):
        before, after = mpmath.eye(3), mpmath.eye(3)
        for matrix in range(matrices):
            own = mpmath.eye(3) if aligned else _reflection(3 * layer + matrix)
            towards = own if aligned else _reflection(5 * layer + 2 * matrix + 1)
            before, after = own * before, (own + step * towards) * after
        still, moved = still + weight * (before * still), moved + weight * (after * moved)
    return mpmath.norm(moved - still)


def _reflection(number: int) -> Any:
    normal = mpmath.matrix([1, number % 3 - 1, (number % 5) / mpmath.mpf(2)])
    return mpmath.eye(3) - 2 * normal * normal.T / (normal.T * normal)[0]


# ---- Norms on what falls with the depth: their epsilon, held against an explicit sum ----


def norm_epsilons(of: OfKind) -> Iterator[Step]:
    """One step for every norm of a kind that divides what falls with the depth."""
    kind, part = of.kind, of.balanced.part
    alpha, beta = (text(of.balanced.value(knob)) for knob in (kind.alpha, kind.beta))
    for norm in of_entry(of.problem.selection, RuleEntry(part.name, kind.name, alpha, beta)):
        powers = (rational(norm.size.exponent(knob)) for knob in ("alpha", "beta"))
        size = sp.Mul(*(k**p for k, p in zip((kind.alpha, kind.beta), powers, strict=True)))
        what = "the branch, as the product of its gains" if norm.of_branch else "the stream"
        yield SECTION.equal(
            f"norm-epsilon-{of.tag}-{norm.place}",
            size**2,
            depth_expression(norm.squared),
            (
                f"{WORDS[norm.place]} is z/sqrt(var(z) + epsilon), and z falls with the depth as "
                f"{what}: epsilon keeps its share under the root where it goes as the square"
            ),
            uses=of.at_rule,
            checks=(
                Check("holds once the solution is put in", partial(_put_in, of)),
                Check(
                    "its share under the root at two depths", partial(_share_kept, of, norm.place)
                ),
            ),
        )


def _put_in(of: OfKind, step: Step) -> bool:
    return bool(simplified(of.balanced.at_solution(step.lhs) / step.rhs) == 1)


def _share_kept(of: OfKind, place: str, step: Step) -> bool:
    """ε beside the variance of an explicit sum, its gains multiplied one by one."""
    placement = of.problem.selection.the_placement
    stream, branch = sp.symbols("stream branch")
    shares = []
    with mpmath.workdps(DIGITS):
        for layers in (10**100, 10**200):
            depths = of.depths((layers, 7))
            at = {s: value(v, depths) for s, v in of.balanced.values.items()}
            gain = mpmath.fprod(at[of.kind.beta] for _ in of.kind.sublayer.scaled)
            divided: list[sp.Expr] = []

            def norm(z: sp.Expr, divided: list[sp.Expr] = divided) -> sp.Expr:
                divided.append(sp.expand(z))
                return stream

            numbers = {"x": stream, "alpha": sp.Float(str(at[of.kind.alpha]), DIGITS)}
            times = sp.Float(str(gain), DIGITS) * branch
            in_sympy(placement.expression, numbers, {"norm": norm, "branch": lambda _, t=times: t})
            z = divided[placement.places.index(place)]
            variance = sum(value(z.coeff(s) ** 2, depths) for s in (stream, branch))
            shares.append(value(step.rhs, depths) / variance)
    first, second = shares
    return bool(abs(second / first - 1) < mpmath.mpf("1e-6"))


def beyond_steps(problem: Problem, balanced: Balanced) -> Iterator[Step]:
    """ρ, the identity, every order, aligned steps, the failing rate, and the norms' epsilons."""
    for kind in balanced.kinds:
        of = OfKind(problem, balanced, kind)
        yield relative_update(of)
        yield increment_identity(of)
        yield relative_law(of)
        yield complete_knobs(of)
        for order in range(1, kind.matrices + 1):
            yield order_within(of, order)
        yield orders_across(of)
        yield bound_of_aligned_steps(of)
        yield failing_rate(of)
        yield from norm_epsilons(of)
