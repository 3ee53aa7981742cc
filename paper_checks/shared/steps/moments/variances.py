"""The same moments with Xavier's variances in place of the fan-in's."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from deepnet_theory.proof.algebra import alpha, v, w
from deepnet_theory.proof.step import IDENTITY, SAMPLED, Section, Step
from paper_checks.shared.expectation import expect, moment
from paper_checks.shared.steps.moments.setting import (
    KNOWN_DV,
    KNOWN_DW,
    KNOWN_X,
    PARAMETER_TERM,
    GaussianBranch,
    d,
    i,
    m,
    norm_dv,
    norm_dw,
    norm_x,
    parameter_change,
    x_white,
)

VARIANCES = Section("Variance conventions")

scale = sp.Symbol("c", positive=True)


def variance_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """The same moments with Xavier's 2/(d + m) for both matrices."""
    xavier = replace(branch, inner=2 * w**2 / (d + m), outer=2 * v**2 / (d + m))
    named = f"{branch.name}-xavier-"
    z = xavier.z()
    square = (z * z).sum(i)
    moved = parameter_change(xavier, x_white)
    factor = sp.factor(sp.expand(expect(square, (KNOWN_X,)) / norm_x**2) - alpha**2)
    weight = moment(
        VARIANCES,
        named + "norm",
        square,
        ("||z||^2", r"\|z\|^2"),
        "Var w_jk = 2w²/(d+m), Var v_ki = 2v²/(d+m): the branch's weight depends on m/d",
        (KNOWN_X,),
        norm_x**2 * (alpha**2 + factor),
        assumptions=branch.assumptions,
    )
    parameters = moment(
        VARIANCES,
        named + "parameter-term",
        (moved * moved).sum(i),
        PARAMETER_TERM,
        "both factors carry 2d/(d+m): at most 1 for m ≥ d, so the source's bound still holds",
        (KNOWN_DV, KNOWN_DW),
        assumptions=("fresh-weights", "independent-update", "white-input"),
    )
    whole = sp.expand(parameters.rhs)
    of_v, of_w = (whole.coeff(norm, 2) for norm in (norm_dv, norm_dw))  # ‖ΔV‖² and ‖ΔW‖²
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


def _ratio(name: str, lhs: sp.Expr, because: str, uses: tuple[str, ...]) -> Step:
    return VARIANCES.equal(
        name,
        lhs,
        sp.cancel(lhs),
        f"r²α² at {because}; the fan-in convention has v²w² there",
        uses=uses,
        checks=(IDENTITY, SAMPLED),
    )


def _scaled(name: str, factor: sp.Expr, uses: tuple[str, ...]) -> Step:
    return VARIANCES.equal(
        name,
        factor.subs({d: scale * d, m: scale * m}, simultaneous=True),
        factor,
        "unchanged where d and m grow together: only m/d enters, never the depth",
        uses=uses,
        establishes=(scale,),
        checks=(IDENTITY, SAMPLED),
    )
