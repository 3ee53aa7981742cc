"""Every order of one step: matrices of one branch that move at once, and of several branches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import comb
from typing import Any

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import present, simplified
from deepnet_theory.symbolic.algebra.symbols import j, k
from deepnet_theory.symbolic.implications.beyond.of_kind import (
    DEPTH_POINTS,
    DIGITS,
    SECTION,
    OfKind,
    near,
    power_of,
)
from deepnet_theory.symbolic.proof.step import Check, Step


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
