"""The sharper bound, β² in place of v² + w², and the constants that it would give."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.proof.algebra import DEPTHS, N, alpha, beta, from_plain, plain, present, v, w
from deepnet_theory.proof.step import SQUARES_AT_MOST, Check, Section, Step
from deepnet_theory.sizes.monomial import solve
from paper_checks.shared.expectation import expect
from paper_checks.shared.steps.moments.route import PARAMETERS, RECURSION, WIDE
from paper_checks.shared.steps.moments.setting import (
    KNOWN_DV,
    KNOWN_DW,
    GaussianBranch,
    i,
    norm_dv,
    norm_dw,
    parameter_change,
    x_white,
)

RULE = Section("Rule of the sharper bound")
SOURCE = "layer cake, §5.3"


def sharper_bound_step(branch: GaussianBranch) -> Step:
    """β²‖Δθ‖² bounds the parameter term at v = w = β."""
    change = parameter_change(branch, x_white)
    whole = expect((change * change).sum(i), (KNOWN_DV, KNOWN_DW))
    named = f"{branch.name}-parameter-"
    return PARAMETERS.at_most(
        named + "sharper-bound",
        whole.subs({v: beta, w: beta}),
        beta**2 * (norm_dv**2 + norm_dw**2),
        "with v = w = β nothing need be added: β² in place of v² + w² = 2β²",
        source=branch.source,
        uses=(named + "term",),
        assumptions=("wide-hidden-layer",),
        checks=(WIDE,),
    )


def sharper_coefficient_step(branches: tuple[GaussianBranch, ...]) -> Step:
    """β/α bounds the coefficient of ‖Δθ‖ at v = w = β."""
    return RECURSION.at_most(
        "sharper-coefficient",
        beta / sp.sqrt(alpha**2 + beta**4),
        beta / alpha,
        "with v = w = β the sharper bound gives β/α in place of √(v²+w²)/α = √2·β/α",
        source=SOURCE,
        uses=tuple(f"{branch.name}-parameter-sharper-bound" for branch in branches),
        checks=(SQUARES_AT_MOST,),
    )


def sharper_rule_steps() -> tuple[Step, ...]:
    """Balance 2N·β²/α² = 1 under SGD with √(v²+w²) = 1/α at v = w = β, solved."""
    conditions = (
        (2 * N * beta**2 / alpha**2, sp.Integer(1)),
        (sp.sqrt(2) * beta, 1 / alpha),
    )
    solution = solve((plain(left / right) for left, right in conditions), ("alpha", "beta"))
    assert solution is not None
    values = {s: from_plain(solution.values[str(s)], DEPTHS) for s in (alpha, beta)}

    def holds(step: Step) -> bool:
        # both conditions with this step's value and the other's, at exact depths
        at = {**values, step.lhs: step.rhs}
        for depth in (1, 8, 1000):
            gaps = ((left - right).subs(at).subs(N, depth) for left, right in conditions)
            if any(abs(sp.N(gap, 40)) > 1e-30 for gap in gaps):
                return False
        return True

    def unique(step: Step) -> bool:
        return step.lhs in values and not solution.free

    return tuple(
        RULE.equal(
            f"sharper-rule-{symbol}",
            symbol,
            present(values[symbol]),
            (
                "SGD, 2N sublayers, balance 2Nβ²/α² = 1 and closure √(v²+w²) = 1/α at v = w = β: "
                "the powers of N stay, the constants lose a factor 2 under the root"
            ),
            source=SOURCE,
            uses=("sharper-coefficient",),
            checks=(
                Check("both conditions hold at N = 1, 8, 1000", holds),
                Check("the conditions have this solution only", unique),
            ),
        )
        for symbol in (alpha, beta)
    )
