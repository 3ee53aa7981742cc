"""Many steps: the bound of aligned ones, and the rate that breaks the model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import mpmath
import sympy as sp

from deepnet_theory.sizes.norm_epsilon import WORDS, of_entry
from deepnet_theory.spec.rule import RuleEntry
from deepnet_theory.symbolic.algebra import (
    depth_expression,
    eta,
    exponent_in,
    plain,
    present,
    rational,
    simplified,
)
from deepnet_theory.symbolic.implications.orders import (
    SECTION,
    Numbers,
    OfKind,
    complete_knobs,
    increment_identity,
    multiplier_steps,
    order_within,
    orders_across,
    power_of,
    relative_law,
    relative_update,
    self_consistency,
)
from deepnet_theory.symbolic.laws.at_depth import Place
from deepnet_theory.symbolic.parts import second_order
from deepnet_theory.symbolic.proof.checks import number
from deepnet_theory.symbolic.proof.step import Check, Regime, Step
from deepnet_theory.symbolic.proof.witness import Matrix
from deepnet_theory.symbolic.rule import Balanced, Problem

tau = sp.Symbol("tau", positive=True)  # the number of aligned steps


def implied_steps(problem: Problem, balanced: Balanced) -> Iterator[Step]:
    """S·r and S·r²; ρ, every order, aligned steps, the failing rate, and the norms' epsilons."""
    kinds = [OfKind(problem, balanced, kind) for kind in balanced.kinds]
    yield from (self_consistency(of, power) for of in kinds for power in (1, 2))
    yield from second_order(balanced.part)
    for of in kinds:
        yield relative_update(of)
        yield increment_identity(of)
        yield relative_law(of)
        yield complete_knobs(of)
        for order in range(1, of.kind.matrices + 1):
            yield order_within(of, order)
        yield orders_across(of)
        yield bound_of_aligned_steps(of)
        yield failing_rate(of)
        yield from norm_epsilons(of)
        yield from multiplier_steps(of)


def bound_of_aligned_steps(of: OfKind) -> Step:
    """A number of aligned steps move a stack by no more than this."""
    weight, count = present(of.weight_at_rule), of.balanced.sublayers
    grown = (1 + tau * eta * present(of.rho_at_rule)) ** of.kind.matrices
    aligned = present(count * weight)
    return SECTION.at_most(
        f"aligned-steps-{of.tag}",
        (1 + weight * grown) ** count - (1 + weight) ** count,
        sp.exp(aligned) * (sp.exp(aligned * (grown - 1)) - 1),
        "tau steps of the first one's size, all aligned, make every matrix 1 + "
        "tau*eta*rho times as large at most; a stack of S branches of norm r then moves "
        "by no more than the difference of these products, and 1 + x is at most exp(x)",
        uses=(f"increment-identity-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates",),
        establishes=(tau, eta),
        checks=(
            Check(
                "both sides at many depths",
                lambda step: all(_bounds(of, n, step) for n in (1, 3, 1000, 10**48)),
            ),
            Check("explicit products of matrices", partial(_explicit_products, of)),
        ),
    )


def _stack(of: OfKind, numbers: Numbers) -> list[Any]:
    """S, r and ρ at depths."""
    sizes = (of.balanced.sublayers, of.weight_at_rule, of.rho_at_rule)
    return [number(size, numbers) for size in sizes]


def _bounds(of: OfKind, layers: int, step: Step) -> bool:
    """The left by logarithms; the bound holds, no larger than a constant asks as r vanishes."""
    numbers, m = of.depths(layers, layers), of.kind.matrices
    # digits of the left that are lost, which is of 1 + weight
    lost = max(0, -int(mpmath.log10(_stack(of, numbers)[1])))
    with mpmath.workdps(200 + lost):
        count, weight, rho = _stack(of, numbers)
        least = 1 - mpmath.mpf(10) ** -50
        for size in (share * min(mpmath.mpf(1), 1 / rho) for share in (mpmath.mpf("0.1"), 1)):
            at = {**numbers, tau: 1, eta: size}
            bound = number(step.rhs, at)
            grown = mpmath.log1p(weight * (1 + size * rho) ** m)
            was = mpmath.exp(count * mpmath.log1p(weight))
            exact = was * mpmath.expm1(count * (grown - mpmath.log1p(weight)))
            if not least < number(step.lhs, at) / exact < 2 - least or bound < exact * least:
                return False
            if layers > 1000 and count * weight**2 <= 1 and bound > exact * 100:
                return False
    return True


def _explicit_products(of: OfKind, step: Step) -> bool:
    """Orthogonal W and ΔW = τηρV, V orthogonal: the largest that a step may be."""
    numbers = of.depths(2, 2)
    count, weight, rho = map(float, _stack(of, numbers))
    for size in (0.1, 1.0):
        bound = float(number(step.rhs, {**numbers, tau: 2, eta: size / 2}))
        for aligned in (True, False):
            moved = _moved(int(count), of.kind.matrices, weight, size * rho, aligned)
            if moved > bound * (1 + 1e-12):
                return False
    return True


def _moved(count: int, matrices: int, weight: float, step: float, aligned: bool) -> float:
    """‖F_τ − F_0‖ of an explicit stack of branches, on a vector of norm 1; ``step`` is τηρ.

    Aligned, every matrix grows along itself; else it moves towards another direction.
    """
    still = moved = Matrix([[1.0, 0.0, 0.0]])
    for layer in range(count):
        before, after = still, moved
        for matrix in range(matrices):
            own = _reflection(0 if aligned else 3 * layer + matrix + 1)
            towards = own if aligned else _reflection(5 * layer + 2 * matrix + 2)
            before, after = before * own, after * (own + step * towards)
        still, moved = still + weight * before, moved + weight * after
    return (moved - still).norm


def _reflection(number: int) -> Matrix:
    """An orthogonal matrix, the identity for 0."""
    normal = Matrix([[1.0, number % 3 - 1.0, (number % 5) / 2]])
    eye = Matrix([[float(a == b) for b in range(3)] for a in range(3)])
    return eye - normal.T * normal * (2 / normal.norm**2) if number else eye


def failing_rate(of: OfKind) -> Step:
    """How the largest stable learning rate scales with depth (worst case)."""
    rho, aligned = present(of.rho_at_rule), of.aligned_at_rule
    root = sp.Rational(1, of.kind.matrices)
    grows = exponent_in(rho, of.balanced.depth) > 0
    failing = present(simplified(rho ** (root - 1))) if grows else sp.Integer(1)
    return SECTION.order(
        f"failing-rate-{of.tag}",
        ((1 + 1 / aligned) ** root - 1) / rho,
        failing,
        f"tau*eta where S*r*((1 + tau*eta*rho)^m - 1) is 1, m = {of.kind.matrices}: "
        + (
            f"as rho grows it falls, by {power_of(failing)}, after however many steps"
            if grows and of.kind.matrices > 1
            else "it does not fall with the depth"
        ),
        regime=Regime(of.balanced.depth, sp.oo),
        uses=(f"aligned-steps-{of.tag}", *of.at_rule),
        assumptions=("aligned-updates",),
        checks=(Check("the slope at depths of 10^100 and more", partial(_slope, of)),),
        left=eta * tau,
    )


def _slope(of: OfKind, step: Step) -> bool:
    with mpmath.workdps(700):
        values = [
            [mpmath.log10(number(side, of.depths(10**power, 7))) for side in (step.lhs, step.rhs)]
            for power in (100, 200)
        ]
        slopes = [(after - before) / 100 for before, after in zip(*values, strict=True)]
        return bool(abs(slopes[0] - slopes[1]) < mpmath.mpf("1e-2"))


# ---- Norms on what falls with the depth: their epsilon, held against an explicit sum ----


def norm_epsilons(of: OfKind) -> Iterator[Step]:
    """One step for every norm of a kind that divides what falls with the depth."""
    kind, part = of.kind, of.balanced.part
    alpha, beta = (str(plain(of.balanced.values[knob])) for knob in (kind.alpha, kind.beta))
    for norm in of_entry(of.problem.selection, RuleEntry(part.name, kind.name, alpha, beta)):
        powers = (rational(norm.size.exponent(knob)) for knob in ("alpha", "beta"))
        size = sp.Mul(*(k**p for k, p in zip((kind.alpha, kind.beta), powers, strict=True)))
        what = "the branch, as the product of its gains" if norm.of_branch else "the stream"
        if norm.of_branch:
            size = size / sp.sqrt(kind.sublayer.chosen)
        yield SECTION.equal(
            f"norm-epsilon-{of.tag}-{norm.place}",
            size**2,
            depth_expression(norm.squared),
            f"{WORDS[norm.place]} is z/sqrt(var(z) + epsilon), and z falls with the depth as "
            f"{what}: epsilon keeps its share under the root where it scales as the square",
            uses=of.at_rule,
            checks=(of.measured(partial(_variance, norm.place), constant=True),),
        )


def _variance(place: str, at: Place) -> float:
    """What the norm at a place divides by."""
    return at.sizes.variances[place].at(*at.knobs)
