r"""How near ‖z‖² is to its mean: the fourth moment, exactly, for any fixed input.

Given the hidden vector h the branch is Gaussian in V, so that
:math:`\|z\|^2` has the moments of a non-central χ²: the check goes that way, unit by unit.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from deepnet_theory.proof.algebra import alpha, v, w
from deepnet_theory.proof.step import Check, Regime, Section, Step
from paper_checks.shared.expectation import Expectation, expect
from paper_checks.shared.steps.moments.setting import KNOWN_X, GaussianBranch, d, i, m, norm_x

CONCENTRATION = Section("Concentration")


def _by_noncentral_chi_square(branch: GaussianBranch) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        # ‖z‖² given h: E = a + dτ, E² = (a + dτ)² + 2dτ² + 4aτ with a = α²‖x‖², τ = Var(v)·‖h‖²
        unit = branch.inner * norm_x**2  # variance of a hidden input
        second = branch.kept * unit
        fourth = branch.kept * 3 * unit**2
        tau1 = branch.outer * m * second
        tau2 = branch.outer**2 * (m * fourth + m * (m - 1) * second**2)
        a = alpha**2 * norm_x**2
        expected = a**2 + 2 * a * d * tau1 + d**2 * tau2 + 2 * d * tau2 + 4 * a * tau1
        return isinstance(step.lhs, Expectation) and bool(sp.expand(step.rhs - expected) == 0)

    return holds


def _at_large(ratio: sp.Expr, variable: sp.Symbol) -> sp.Expr:
    """The limit of a rational function of equal degrees, the quotient of their coefficients."""
    top, bottom = (sp.Poly(part, variable) for part in sp.fraction(sp.together(ratio)))
    if top.degree() != bottom.degree():
        raise ValueError(f"{ratio} has no finite limit other than 0")
    return top.LC() / bottom.LC()


def concentration_steps(branch: GaussianBranch) -> tuple[Step, ...]:
    """E‖z‖⁴, and the relative variance of ‖z‖² for a wide branch."""
    z = branch.z()
    square = (z * z).sum(i)
    fourth = sp.expand(expect(square * square, (KNOWN_X,)))
    mean = alpha**2 + v**2 * w**2
    unit = {norm_x: sp.sqrt(d), m: d}
    spread = sp.factor(sp.expand(fourth.subs(unit) - (d * mean) ** 2)) / (d * mean) ** 2
    leading = sp.factor(_at_large(spread * d, d)) / d
    named = f"{branch.name}-concentration"
    return (
        CONCENTRATION.equal(
            named + "-fourth-moment",
            Expectation(square * square, "||z||^4", r"\|z\|^4", (KNOWN_X,)),
            fourth,
            "pairings of W and V and the mask's own coincidences, for every fixed x",
            uses=(f"{branch.name}-norm",),
            assumptions=branch.assumptions,
            checks=(Check("by the non-central chi-square law", _by_noncentral_chi_square(branch)),),
        ),
        CONCENTRATION.asymptotic(
            named,
            spread,
            leading,
            "the relative variance of ‖z‖² vanishes with the width: ‖z‖ ≈ √E‖z‖²",
            uses=(named + "-fourth-moment",),
            assumptions=("unit-activations",),
            regime=Regime(d, sp.oo, "m = d"),
        ),
    )
