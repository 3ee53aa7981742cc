"""Other variances, and any number of heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp

from deepnet_theory.symbolic.expectation import (
    ENUMERATED,
    Expectation,
    Gaussian,
    Index,
    Tensor,
    expect,
)
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import IDENTITY, SAMPLED, Step
from deepnet_theory.symbolic.routes.moments.setting import (
    CAKE_ATTENTION,
    KNOWN_AVERAGE,
    KNOWN_DV,
    KNOWN_DW,
    KNOWN_X,
    XAVIER,
    Branch,
    alpha,
    average,
    d,
    i,
    j,
    k,
    m,
    norm_x,
    v,
    w,
    x,
    x_white,
)
from deepnet_theory.symbolic.routes.moments.sublayer import (
    output_factor,
    parameter_change,
    source_factors,
)

CONVENTIONS, HEADS = "Variance conventions", "Heads"

scale = sp.Symbol("c", positive=True)
h = sp.Symbol("h", positive=True)  # heads
head_width = sp.Symbol("d_k", positive=True)


def convention_steps(branch: Branch) -> tuple[Step, ...]:
    """The same moments with Xavier's 2/(d + m) for both matrices."""
    xavier = replace(branch, convention=XAVIER)
    named = f"{branch.name}-xavier-"
    z = xavier.z()
    square = (z * z).sum(i)
    moved = parameter_change(xavier, x_white)
    factor = sp.factor(output_factor(xavier) - alpha**2)
    of_v, of_w = source_factors(xavier)
    norm_square = norm_x**2 * (alpha**2 + factor)
    term = expect((moved * moved).sum(i), (KNOWN_DV, KNOWN_DW))
    weight = _moment(
        named + "norm", Expectation(square, "||z||^2", r"\|z\|^2", (KNOWN_X,)), norm_square,
        "Var w_jk = 2w²/(d+m), Var v_ki = 2v²/(d+m): the branch's weight depends on m/d",
        branch.assumptions,
    )  # fmt: skip
    parameters = _moment(
        named + "parameter-term",
        Expectation(
            (moved * moved).sum(i), "||dz/dV dV + dz/dW dW||^2",
            r"\|\tfrac{\partial z}{\partial V}\Delta V+\tfrac{\partial z}{\partial W}\Delta W\|^2",
            (KNOWN_DV, KNOWN_DW),
        ),
        term,
        "both factors carry 2d/(d+m): at most 1 for m ≥ d, so the source's bound still holds",
        ("fresh-weights", "independent-update", "white-input"),
    )  # fmt: skip
    return (
        weight,
        parameters,
        _ratio(named + "weight-at-4d", factor.subs(m, 4 * d), "m = 4d, the usual feed-forward",
               (weight.name,)),
        _ratio(named + "weight-at-d", factor.subs(m, d), "m = d, attention", (weight.name,)),
        _scaled(named + "dimension-free-weight", factor, (weight.name,)),
        _scaled(named + "dimension-free-second-matrix", of_v, (parameters.name,)),
        _scaled(named + "dimension-free-first-matrix", of_w, (parameters.name,)),
    )  # fmt: skip


def _moment(
    name: str, lhs: Expectation, rhs: Any, because: str, assumptions: tuple[str, ...]
) -> Step:
    return Step(
        name=name,
        section=CONVENTIONS,
        lhs=lhs,
        rhs=rhs,
        relation=Relation.EQUAL,
        because=because,
        source="derived here",
        assumptions=assumptions,
        checks=(ENUMERATED,),
    )


def _ratio(name: str, lhs: Any, because: str, uses: tuple[str, ...]) -> Step:
    return Step(
        name=name,
        section=CONVENTIONS,
        lhs=lhs,
        rhs=sp.cancel(lhs),
        relation=Relation.EQUAL,
        because=f"r²α² at {because}; the fan-in convention has v²w² there",
        source="derived here",
        uses=uses,
        checks=(IDENTITY, SAMPLED),
    )


def _scaled(name: str, factor: Any, uses: tuple[str, ...]) -> Step:
    return Step(
        name=name,
        section=CONVENTIONS,
        lhs=factor.subs({d: scale * d, m: scale * m}, simultaneous=True),
        rhs=factor,
        relation=Relation.EQUAL,
        because="unchanged where d and m grow together: only m/d enters, never the depth",
        source="derived here",
        uses=uses,
        establishes=(scale,),
        checks=(IDENTITY, SAMPLED),
    )


def head_steps(branch: Branch) -> tuple[Step, ...]:
    """The linear branch with its h heads written out: their number drops out."""
    a, kk = Index("a", h), Index("k", head_width)
    value = Tensor("W", (h, d, head_width), Gaussian(w**2 / d))
    output = Tensor("V", (h, head_width, d), Gaussian(v**2 / (h * head_width)))
    z = alpha * x[i] + (x[j] * value[a, j, kk] * output[a, kk, i]).sum(a, j, kk)
    square = (z * z).sum(i)
    node = Expectation(square, "||z||^2 with h heads", r"\|z\|^2", (KNOWN_X,))
    averaged = x[i] * alpha + (average[j] * branch.W[j, k] * branch.V[k, i]).sum(j, k)
    softmaxed = (averaged * averaged).sum(i)
    of_average = (KNOWN_X, KNOWN_AVERAGE)
    return (
        Step(
            name=f"{branch.name}-of-an-average",
            section=HEADS,
            lhs=Expectation(softmaxed, "||alpha x + a W V||^2", r"\|\alpha x+aWV\|^2", of_average),
            rhs=expect(softmaxed, of_average),
            relation=Relation.EQUAL,
            because=(
                "with softmax the value map sees an average a of the tokens: the branch weighs "
                "v²w²‖a‖². It is v²w²d where tokens are alike, v²w²d/n for uncorrelated tokens "
                "under even attention"
            ),
            source="derived here",
            uses=(f"{branch.name}-norm",),
            assumptions=("fresh-weights",),
            checks=(ENUMERATED,),
        ),
        Step(
            name=f"{branch.name}-heads",
            section=HEADS,
            lhs=node,
            rhs=sp.factor(expect(square, (KNOWN_X,))),
            relation=Relation.EQUAL,
            because=(
                "Σ_a x W_V^a W_O^a over the heads is xW_VW_O with the heads' columns side by side: "
                "m = h·d_k, and the number of heads drops out"
            ),
            source=CAKE_ATTENTION,
            uses=(f"{branch.name}-norm",),
            assumptions=branch.assumptions,
            establishes=(h, head_width),
            checks=(ENUMERATED,),
        ),
    )
