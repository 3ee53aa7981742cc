r"""The scalar sublayer differentiated in its gains, with one sign and with a random one.

.. math:: \frac{\partial f}{\partial v} \approx \frac{w}{\alpha}\,x, \qquad
          \mathbb E\Bigl\|\frac{\partial f}{\partial\theta}\Bigr\|^2
          \approx \frac{v^2 + w^2}{\alpha^2}

Derivatives are exact; their leading orders hold where the branch weight r = P/α tends to 0.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from deepnet_theory.proof.algebra import alpha, r
from deepnet_theory.proof.lemma import SCALAR as SECTION
from deepnet_theory.proof.lemma import SCALAR_SOURCE as SOURCE
from deepnet_theory.proof.lemma import (
    SIGNED_SOURCE,
    Gains,
    derivative,
    mean_over_signs,
    responses,
    x,
    xi,
)
from deepnet_theory.proof.step import SIGN, Check, Regime, Step, ratio_in_branch_weight
from paper_checks.shared.steps.checks import NONNEGATIVE_TERMS

FROM = ("scalar-sublayer",)
SMALL = Regime(r, sp.Integer(0), "r = P/alpha, the branch weight")


def derivative_steps(gains: Gains) -> tuple[Step, ...]:
    """Exact derivatives, leading orders and the parameters' norm."""
    return (_one_sign_variance(gains), *_one_sign(gains), *_random_sign(gains))


def _one_sign_variance(gains: Gains) -> Step:
    weight = sp.Mul(*gains)
    return SECTION.at_most(
        "variance-with-one-sign",
        (alpha + weight) ** 2,
        2 * (alpha**2 + weight**2),
        (
            "with G = Px itself var(αx + G) is (α + P)², of the order of α² + P² but not "
            "equal to it: dividing by the true deviation would return x and no derivative "
            "in v or w at all, so the additive variance belongs to the random sign"
        ),
        source=SOURCE,
        checks=(SIGN,),
    )


def _leading(name: str, exact: Step, rhs: sp.Expr, gains: Gains, because: str) -> Step:
    return SECTION.asymptotic(
        f"derivative-{name}-leading",
        exact.rhs,
        rhs,
        because,
        source=SOURCE,
        uses=(exact.name, "branch-weight"),
        assumptions=("small-branch-weight",),
        regime=SMALL,
        checks=(ratio_in_branch_weight(gains[0], sp.Mul(*gains) / alpha),),
    )


def _one_sign(gains: Gains) -> tuple[Step, ...]:
    weight = sp.Mul(*gains)
    of_x = derivative("x", gains, x, uses=FROM)
    once = "one Jacobian tends to 1; a product of many need not"
    steps = [of_x, _leading("x", of_x, sp.S.One, gains, once)]
    why = "leading order in the branch weight, the ratio being (1 − r)/(1 + r²)^(3/2)"
    for gain in gains:
        exact = derivative(gain.name, gains, gain, uses=FROM)
        steps += [exact, _leading(gain.name, exact, weight / gain * x / alpha, gains, why)]
    squared = sp.Add(*(step.rhs**2 for step in steps[2::2]))
    norm = SECTION.asymptotic(
        "parameter-norm",
        sp.factor_terms(squared.xreplace({x: sp.S.One})),
        responses(gains) / alpha**2,
        "E‖∂f/∂θ‖² with E x² = 1, leading order",
        source="layer cake, §4.2, second supplement",
        uses=tuple(step.name for step in steps[2::2]),
        assumptions=("unit-activations", "small-branch-weight"),
        regime=SMALL,
        checks=(ratio_in_branch_weight(gains[0], weight / alpha),),
    )
    return (*steps, norm)


def _random_sign(gains: Gains) -> tuple[Step, ...]:
    weight = sp.Mul(*gains)
    exact = tuple(derivative(gain.name, gains, gain, xi, FROM) for gain in gains)
    squared = sp.Add(*(mean_over_signs(step.rhs**2) for step in exact)).xreplace({x: sp.S.One})
    mean = SECTION.equal(
        "parameter-norm-signed",
        sp.factor_terms(squared),
        sp.factor(squared),
        "E‖∂f/∂θ‖² over both signs with E x² = 1; the terms odd in r cancel",
        source=SIGNED_SOURCE,
        uses=tuple(step.name for step in exact),
        assumptions=("unit-activations", "independent-signs"),
    )
    bound = SECTION.at_most(
        "parameter-norm-at-most",
        mean.rhs,
        responses(gains) / alpha**2,
        "with the random sign the source's leading order is an upper bound at every r",
        uses=("parameter-norm-signed",),
        checks=(NONNEGATIVE_TERMS,),
    )
    leading = SECTION.asymptotic(
        "parameter-norm-signed-leading",
        mean.rhs,
        responses(gains) / alpha**2,
        "and it is approached to order r², the ratio being 1/(1 + r²)²",
        source=SIGNED_SOURCE,
        uses=("parameter-norm-signed", "branch-weight"),
        assumptions=("small-branch-weight",),
        regime=SMALL,
        checks=(ratio_in_branch_weight(gains[0], weight / alpha),),
    )
    return (*exact, *(_signed_leading(step, gains) for step in exact), mean, bound, leading)


def _signed_leading(exact: Step, gains: Gains) -> Step:
    """For either sign; ``exact`` is the derivative in one of the gains."""
    gain = exact.lhs.args[1][0]

    def for_either_sign(step: Step) -> bool:
        tends = ratio_in_branch_weight(gains[0], sp.Mul(*gains) / alpha)
        sides = ({xi: sign} for sign in (sp.S.One, sp.S.NegativeOne))
        return all(
            tends.holds(replace(step, lhs=at[xi] * step.lhs.xreplace(at),
                                rhs=at[xi] * step.rhs.xreplace(at)))
            for at in sides
        )  # fmt: skip

    return SECTION.asymptotic(
        f"derivative-{gain}-signed-leading",
        exact.rhs,
        xi * sp.Mul(*gains) / gain * x / alpha,
        "leading order in the branch weight with a random sign xi = ±1, the source's I",
        source=SIGNED_SOURCE,
        uses=(exact.name, "branch-weight"),
        assumptions=("small-branch-weight",),
        regime=replace(SMALL, keeps="r = v*w/alpha, for either sign"),
        checks=(Check("the ratio tends to 1 for either sign", for_either_sign),),
    )
