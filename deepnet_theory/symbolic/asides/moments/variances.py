"""The same moments with Xavier's variances in place of the fan-in's."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from deepnet_theory.symbolic.expectation import (
    ENUMERATED,
    Expectation,
    expect,
)
from deepnet_theory.symbolic.proof.section import Section
from deepnet_theory.symbolic.proof.step import IDENTITY, SAMPLED, Step
from deepnet_theory.symbolic.routes.moments.setting import (
    KNOWN_DV,
    KNOWN_DW,
    KNOWN_X,
    XAVIER,
    GaussianBranch,
    alpha,
    d,
    i,
    m,
    norm_dv,
    norm_dw,
    norm_x,
    x_white,
)
from deepnet_theory.symbolic.routes.moments.sublayer import parameter_change

VARIANCES = Section("Variance conventions")

scale = sp.Symbol("c", positive=True)


def variance_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """The same moments with Xavier's 2/(d + m) for both matrices."""
    xavier = replace(branch, convention=XAVIER)
    named = f"{branch.name}-xavier-"
    z = xavier.z()
    square = (z * z).sum(i)
    moved = parameter_change(xavier, x_white)
    factor = sp.factor(_output_factor(xavier) - alpha**2)
    of_v, of_w = _matrix_factors(xavier)
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
    name: str, lhs: Expectation, rhs: sp.Expr, because: str, assumptions: tuple[str, ...]
) -> Step:
    return VARIANCES.equal(
        name,
        lhs,
        rhs,
        because,
        assumptions=assumptions,
        checks=(ENUMERATED,),
    )


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


def _matrix_factors(branch: GaussianBranch) -> tuple[sp.Expr, sp.Expr]:
    """The factors of ‖ΔV‖² and ‖ΔW‖² in the parameter term, for uncorrelated inputs."""
    white = parameter_change(branch, x_white)
    whole = sp.expand(expect((white * white).sum(i), (KNOWN_DV, KNOWN_DW)))
    return whole.coeff(norm_dv, 2), whole.coeff(norm_dw, 2)


def _output_factor(branch: GaussianBranch) -> sp.Expr:
    """E‖z‖²/‖x‖²."""
    z = branch.z()
    return sp.expand(expect((z * z).sum(i), (KNOWN_X,)) / norm_x**2)
