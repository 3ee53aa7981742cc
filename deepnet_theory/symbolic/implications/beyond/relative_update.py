"""S·r and ρ, the two numbers of the first-order balance, and which knobs reach both."""

from __future__ import annotations

from functools import partial

import sympy as sp

from deepnet_theory.symbolic.algebra.monomial import exponents, present, simplified
from deepnet_theory.symbolic.algebra.symbols import DEPTHS, eta
from deepnet_theory.symbolic.implications.beyond.of_kind import (
    DEPTH_POINTS,
    DIGITS,
    SECTION,
    OfKind,
    near,
    power_of,
)
from deepnet_theory.symbolic.proof.step import Check, Step


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
