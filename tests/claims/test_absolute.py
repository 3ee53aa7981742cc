"""How the changes of single layers add: every step holds, and a planted error is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.spec.assumption import assumption
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.steps.absolute import A, L, absolute_steps, g, m, n, r

STEPS = {step.name: step for step in absolute_steps()}


@pytest.mark.parametrize("name", STEPS)
def test_every_step_holds(name: str) -> None:
    assert STEPS[name].check() is Verdict.PROVED, STEPS[name].failures()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("changes-add", L * A),  # L² of the common part in place of L(L − 1)
        ("aligned-and-random", L**2 * n**2),
        ("parts-add", A),
        ("odd-orders-vanish", r**3),
        ("layers-between", sp.Rational(1, 3)),
        ("block-size", m * g**2),
        ("blocks-correct", r),
    ],
)
def test_a_planted_error_is_refused(name: str, error: sp.Expr) -> None:
    step = STEPS[name]
    assert replace(step, rhs=step.rhs + error).check() is Verdict.REFUTED


def test_the_random_part_does_not_lead() -> None:
    step = STEPS["aligned-part-leads"]
    assert replace(step, rhs=sp.sqrt(L) * n).check() is Verdict.REFUTED


def test_every_premise_is_one_that_is_measured() -> None:
    named = {name for step in STEPS.values() for name in step.assumptions}
    assert named == {"linear-step", "near-identity", "independent-signs"}
    assert all(assumption(name).measurement is not None for name in named)
