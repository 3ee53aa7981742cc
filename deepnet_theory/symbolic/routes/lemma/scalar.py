r"""The scalar sublayer: a branch of gains v, w beside an identity path of weight α.

.. math:: f = \frac{\alpha + \sigma P}{\sqrt{\alpha^2 + P^2}}\,x, \qquad P = v w,\ \sigma = \pm1.

With σ = 1 this is the paper's sublayer, with a random sign the layer cake's. Derivatives are
exact; their leading orders hold where the branch weight r = P/α tends to 0.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy as sp

from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import SIGN, Regime, Step
from deepnet_theory.symbolic.routes.lemma.checks import (
    DERIVATIVE,
    EXACT,
    NONNEGATIVE_TERMS,
    defines,
    ratio_in_branch_weight,
)
from deepnet_theory.symbolic.routes.lemma.symbols import r, sigma, x

SECTION = "Scalar sublayer"
SOURCE = "DeepNet, arXiv 2203.00555, §4.1; layer cake, §4.2"
SIGNED_SOURCE = "layer cake, §4.3, the random variable I"
SMALL = Regime(r, sp.Integer(0), "r = P/alpha, the branch weight")

Gains = tuple[sp.Symbol, ...]


def sublayer(gains: Gains, alpha: sp.Symbol, sign: Any = 1) -> Any:
    """f = (α + σP) x/√(α² + P²) with P the product of the gains."""
    weight = sp.Mul(*gains)
    return (alpha + sign * weight) * x / sp.sqrt(alpha**2 + weight**2)


def responses(gains: Gains) -> Any:
    """Σ (P/β_j)², the squared norm of the branch's derivatives in its gains."""
    weight = sp.Mul(*gains)
    return sp.Add(*((weight / gain) ** 2 for gain in gains))


def scalar_steps(gains: Gains, alpha: sp.Symbol) -> tuple[Step, ...]:
    """Variance, exact derivatives, leading orders, with one sign and with a random one."""
    return (
        *_normaliser(gains, alpha),
        _branch_weight(gains, alpha),
        *_one_sign(gains, alpha),
        *_random_sign(gains, alpha),
    )


def _mean_over_signs(expression: Any) -> Any:
    return sum(expression.xreplace({sigma: sign}) for sign in (sp.S.One, sp.S.NegativeOne)) / 2


def _normaliser(gains: Gains, alpha: sp.Symbol) -> tuple[Step, ...]:
    weight = sp.Mul(*gains)
    return (
        Step(
            name="variance-with-random-sign",
            section=SECTION,
            lhs=_mean_over_signs((alpha + sigma * weight) ** 2),
            rhs=alpha**2 + weight**2,
            relation=Relation.EQUAL,
            because="over both signs of the branch var(αx + G) is α²·var x + var G exactly",
            source=SIGNED_SOURCE,
            assumptions=("independent-signs",),
        ),
        Step(
            name="variance-with-one-sign",
            section=SECTION,
            lhs=(alpha + weight) ** 2,
            rhs=2 * (alpha**2 + weight**2),
            relation=Relation.AT_MOST,
            because=(
                "with G = Px itself var(αx + G) is (α + P)², of the order of α² + P² but not "
                "equal to it: dividing by the true deviation would return x and no derivative "
                "in v or w at all, so the additive variance belongs to the random sign"
            ),
            source=SOURCE,
            checks=(SIGN,),
        ),
        Step(
            name="scalar-sublayer",
            section=SECTION,
            lhs=(alpha * x + weight * x) / sp.sqrt(alpha**2 * x**2 + weight**2 * x**2) * x,
            rhs=sublayer(gains, alpha),
            relation=Relation.EQUAL,
            because="αx + G over its deviation, at the scale of x",
            source=SOURCE,
            uses=("variance-with-random-sign",),
            checks=EXACT,
        ),
    )


def _branch_weight(gains: Gains, alpha: sp.Symbol) -> Step:
    return Step(
        name="branch-weight",
        section=SECTION,
        lhs=r,
        rhs=sp.Mul(*gains) / alpha,
        relation=Relation.EQUAL,
        because="the branch against the identity path",
        source=SOURCE,
        uses=("scalar-sublayer",),
        checks=(
            defines(
                "the two terms of the sublayer's numerator, divided",
                lambda: _terms_divided(sublayer(gains, alpha), alpha),
            ),
        ),
        establishes=(r,),
    )


def _terms_divided(output: Any, alpha: sp.Symbol) -> Any:
    numerator = sp.expand(sp.numer(output))
    path = numerator.coeff(alpha, 1) * alpha
    return (numerator - path) / path


def _one_sign(gains: Gains, alpha: sp.Symbol) -> tuple[Step, ...]:
    weight = sp.Mul(*gains)
    steps = [_derivative("x", gains, alpha, x)]
    steps.append(
        Step(
            name="derivative-x-leading",
            section=SECTION,
            lhs=steps[0].rhs,
            rhs=sp.Integer(1),
            relation=Relation.ASYMPTOTIC,
            because="one Jacobian tends to 1; a product of many need not",
            source=SOURCE,
            uses=("derivative-x", "branch-weight"),
            assumptions=("small-branch-weight",),
            regime=SMALL,
            checks=(ratio_in_branch_weight(gains[0], weight / alpha),),
        )
    )
    for gain in gains:
        exact = _derivative(gain.name, gains, alpha, gain)
        leading = Step(
            name=f"derivative-{gain.name}-leading",
            section=SECTION,
            lhs=exact.rhs,
            rhs=weight / gain * x / alpha,
            relation=Relation.ASYMPTOTIC,
            because="leading order in the branch weight, the ratio being (1 − r)/(1 + r²)^(3/2)",
            source=SOURCE,
            uses=(exact.name, "branch-weight"),
            assumptions=("small-branch-weight",),
            regime=SMALL,
            checks=(ratio_in_branch_weight(gains[0], weight / alpha),),
        )
        steps += [exact, leading]
    squared = sp.Add(*(step.rhs**2 for step in steps[2::2]))
    steps.append(
        Step(
            name="parameter-norm",
            section=SECTION,
            lhs=sp.factor_terms(squared.xreplace({x: sp.S.One})),
            rhs=responses(gains) / alpha**2,
            relation=Relation.ASYMPTOTIC,
            because="E‖∂f/∂θ‖² with E x² = 1, leading order",
            source="layer cake, §4.2, second supplement",
            uses=tuple(step.name for step in steps[2::2]),
            assumptions=("unit-activations", "small-branch-weight"),
            regime=SMALL,
            checks=(ratio_in_branch_weight(gains[0], weight / alpha),),
        )
    )
    return tuple(steps)


@cache
def _differentiated(gains: Gains, alpha: sp.Symbol, variable: sp.Symbol) -> Any:
    """The derivative of the signed sublayer; the other is its case σ = 1."""
    return sp.factor(sp.diff(sublayer(gains, alpha, sigma), variable))


def _derivative(
    name: str, gains: Gains, alpha: sp.Symbol, variable: sp.Symbol, sign: Any = sp.S.One
) -> Step:
    signed = sign == sigma
    return Step(
        name=f"derivative-{name}" + ("-signed" if signed else ""),
        section=SECTION,
        lhs=sp.Derivative(sublayer(gains, alpha, sign), variable),
        rhs=_without_minus(_differentiated(gains, alpha, variable).xreplace({sigma: sign})),
        relation=Relation.EQUAL,
        because=f"differentiated in {variable} and factored",
        source=SIGNED_SOURCE if signed else SOURCE,
        uses=("scalar-sublayer",),
        # the signed derivatives differ by σ alone: their exact check is enough
        checks=DERIVATIVE[1:] if signed else DERIVATIVE,
        establishes=(sigma,) if signed else (),
    )


def _without_minus(product: Any) -> Any:
    """A product −(b − a)·… written (a − b)·…, as the source prints it."""
    factors = list(sp.Mul.make_args(product))
    sums = [factor for factor in factors if factor.is_Add]
    if sp.S.NegativeOne not in factors or not sums:
        return product
    factors.remove(sp.S.NegativeOne)
    factors[factors.index(sums[0])] = -sums[0]
    return sp.Mul(*factors)


def _random_sign(gains: Gains, alpha: sp.Symbol) -> tuple[Step, ...]:
    weight = sp.Mul(*gains)
    exact = tuple(_derivative(gain.name, gains, alpha, gain, sigma) for gain in gains)
    squared = sp.Add(*(_mean_over_signs(step.rhs**2) for step in exact)).xreplace({x: sp.S.One})
    mean = Step(
        name="parameter-norm-signed",
        section=SECTION,
        lhs=sp.factor_terms(squared),
        rhs=sp.factor(squared),
        relation=Relation.EQUAL,
        because="E‖∂f/∂θ‖² over both signs with E x² = 1; the terms odd in r cancel",
        source=SIGNED_SOURCE,
        uses=tuple(step.name for step in exact),
        assumptions=("unit-activations", "independent-signs"),
        checks=EXACT,
    )
    bound = Step(
        name="parameter-norm-at-most",
        section=SECTION,
        lhs=mean.rhs,
        rhs=responses(gains) / alpha**2,
        relation=Relation.AT_MOST,
        because="with the random sign the source's leading order is an upper bound at every r",
        uses=("parameter-norm-signed",),
        checks=(NONNEGATIVE_TERMS,),
    )
    leading = Step(
        name="parameter-norm-signed-leading",
        section=SECTION,
        lhs=mean.rhs,
        rhs=responses(gains) / alpha**2,
        relation=Relation.ASYMPTOTIC,
        because="and it is approached to order r², the ratio being 1/(1 + r²)²",
        source=SIGNED_SOURCE,
        uses=("parameter-norm-signed", "branch-weight"),
        assumptions=("small-branch-weight",),
        regime=SMALL,
        checks=(ratio_in_branch_weight(gains[0], weight / alpha),),
    )
    path = _derivative("x", gains, alpha, x, sigma)
    return (path, *exact, mean, bound, leading)
