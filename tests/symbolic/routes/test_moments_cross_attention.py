"""Encoder and decoder by moments: every step proved, planted errors refuted, the rule reached."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from html import unescape
from typing import Any

import numpy as np
import pytest
import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import AMPLIFICATIONS, Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra.monomial import M, N, eta
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.expectation import IndexSum
from deepnet_theory.symbolic.proof.step import Relation, Step
from deepnet_theory.symbolic.routes.moments.amplification import Half, Parts
from deepnet_theory.symbolic.routes.moments.setting import alpha, beta, d, m, v, w
from deepnet_theory.symbolic.rule.kinds import SECTION as BALANCE
from deepnet_theory.symbolic.rule.problem import Problem, solve_rule
from paper_checks.shared.steps.catalogue import background
from paper_checks.shared.steps.moments import moment_asides

PLACEMENTS = ("post-ln", "pre-ln", "res-post-ln", "sandwich-ln")
OF_ONE_STACK = {
    placement: {
        step.name
        for step in derive(Selection(optimizer="sgd", method="moments", placement=placement)).steps
    }
    for placement in PLACEMENTS
}
DECODER = tuple(sp.symbols("alpha_d v_d w_d beta_d", positive=True))


@cache
def derivation(placement: str = "post-ln", optimizer: str = "sgd", way: str = "published") -> Any:
    return derive(
        Selection(
            optimizer=optimizer,
            placement=placement,
            method="moments",
            stack="encoder-decoder",
            amplification=way,
        )
    )


def own_steps(placement: str) -> list[Step]:
    """The steps that a single stack does not have, up to the balance, A counted every way."""
    ours = ("cross-", "memory-", "amplification-", "two-part")
    found = {
        step.name: step
        for way in AMPLIFICATIONS
        for step in derivation(placement, way=way).steps
        if step.name.startswith(ours) and step.section != BALANCE.title
    }
    return list(found.values())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_step_is_proved(placement: str) -> None:
    own = own_steps(placement)
    assert len(own) == 18
    assert not {step.name for step in own} & OF_ONE_STACK[placement]
    for step in (*derivation(placement).steps, *own):
        assert step.failures() == (), step.name


def test_the_ways_of_counting_that_are_not_asked_for_are_asides() -> None:
    for stack, expected in (("encoder-decoder", True), ("decoder", False)):
        selection = Selection(optimizer="sgd", method="moments", stack=stack)
        told = {step.name for step in moment_asides(selection)}
        assert ("amplification-independent" in told) == expected
        assert ("sharper-rule-alpha" in told) != expected  # of one part alone


def planted(step: Step) -> list[Any]:
    right = step.rhs
    if isinstance(right, IndexSum):
        return [IndexSum(right.polynomial * 2), IndexSum(right.polynomial * (-1))]
    wrong = [-right, right / 2]
    if step.relation is Relation.AT_MOST and step.name not in TIGHT:
        return wrong
    wrong += [2 * right, right.subs({N: M, M: N}, simultaneous=True), right + 1]
    wrong += [
        right.subs(s, 1) for s in (v, w, alpha, d, m, *DECODER, sp.Symbol("K", positive=True))
    ]
    wrong += [right.subs(s, s**2) for s in (v, w, alpha, *DECODER, M, N)]
    return [x for x in wrong if x != right and sp.simplify(x - right) != 0]


# bounds whose constant is checked too, so that a larger one is refuted
TIGHT = {
    "two-part-bound", "amplification-independent", "cross-gradient-response",
}  # fmt: skip


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_planted_errors_are_refuted(placement: str) -> None:
    for step in own_steps(placement):
        wrong = planted(step)
        assert wrong
        for right in wrong:
            assert replace(step, rhs=right).check() is Verdict.REFUTED, (step.name, right)


@pytest.mark.parametrize("way", AMPLIFICATIONS)
def test_only_the_amplification_asked_for_is_in_the_route(way: str) -> None:
    found = derivation(way=way)
    needed = {
        "published": {"amplification-aligned"},
        "worst-case": {"amplification-aligned", "cross-gradient-response"},
        "independent": {
            "amplification-aligned",
            "amplification-mean-square",
            "amplification-independent",
            "cross-gradient-response",
        },
    }
    of_any_way = set().union(*needed.values())
    assert {step.name for step in found.steps} & of_any_way == needed[way]
    told = background(found.selection)
    assert of_any_way <= {step.name for step in told.steps}
    assert told.verdict is Verdict.PROVED


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_reversed_inequalities_are_refuted(placement: str) -> None:
    for step in own_steps(placement):
        if step.relation is Relation.AT_MOST:
            swapped = replace(step, lhs=step.rhs, rhs=step.lhs)
            assert swapped.check() is Verdict.REFUTED, step.name


def test_the_moments_themselves() -> None:
    found = derivation()
    names = {str(s): s for s in found.step("cross-change").rhs.free_symbols}
    expected = alpha**2 * names["norm_dx_l"] ** 2 + v**2 * w**2 * names["norm_da"] ** 2
    assert sp.expand(found.step("cross-change").rhs - expected) == 0
    assert str(found.step("amplification-aligned").rhs) == "M*v_d*w_d/alpha_d"
    found = derivation(way="independent")
    assert str(found.step("amplification-independent").rhs) == "sqrt(M)*v_d*w_d/alpha_d"


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
@pytest.mark.parametrize("way", AMPLIFICATIONS)
def test_the_increments_are_what_the_balance_sums(placement: str, optimizer: str, way: str) -> None:
    """The derived increments in the symbols of each part, against the engine's balance."""
    found = derivation(placement, optimizer, way)
    new = [step for step in found.steps if step.name not in OF_ONE_STACK[placement]]
    assert all(step.check() is not Verdict.REFUTED for step in new)
    for balanced in Problem(found.selection).balanced:
        own = {alpha: balanced.kinds[0].alpha, beta: balanced.kinds[0].beta}
        for name in ("moment-increment", "cross-increment"):
            stated = found.step(name).rhs.xreplace(own) / eta
            assert sp.powsimp(stated / balanced.kinds[0].increment, force=True) == 1
            assert name in {step.name for step in found.support}
    lemma = replace(found.selection, method="lemma")
    assert found.rule.entries == solve_rule(lemma).entries


def test_the_published_rule() -> None:
    entries = derivation().rule.entries
    assert [entry.part for entry in entries] == ["encoder", "decoder"]
    assert entries[0].at(N=1, M=1) == pytest.approx((0.81, 0.87), abs=0.005)
    assert entries[1].at(N=1, M=1) == pytest.approx((3**0.25, 12**-0.25))


def test_the_mean_square_amplification_stays_below_one() -> None:
    for placement in PLACEMENTS:
        selection = derivation(placement).selection
        parts = Parts(*map(Half, selection.the_stack.parts), sp.S.One, placement == "post-ln", {})
        for layers, weight in ((3, sp.Integer(2)), (40, sp.Rational(1, 3))):
            assert parts.run_through(layers, weight) < 1


def test_a_memory_change_through_a_decoder_sampled() -> None:
    """Post-LN with fresh matrices: A² of a fixed change of the memory, self-attention between."""
    generator = np.random.default_rng(6)
    width, layers, residual, draws = 48, 4, 1.6, 400

    def norm(x: Any) -> Any:
        x = x - x.mean()
        return np.sqrt(width) * x / np.linalg.norm(x)

    start, memory = norm(generator.normal(size=width)), norm(generator.normal(size=width))
    step = generator.normal(size=width)
    step *= 1e-4 / np.linalg.norm(step)
    found = []
    for _ in range(draws):
        here, moved = start, start
        for _ in range(layers):
            for reads_memory in (False, True, False):
                inner, outer = generator.normal(0, width**-0.5, (2, width, width))
                matrix = inner @ outer
                one, two = (memory, memory + step) if reads_memory else (here, moved)
                here, moved = (
                    norm(residual * here + one @ matrix),
                    norm(residual * moved + two @ matrix),
                )
        found.append(np.sum((moved - here) ** 2) / np.sum(step**2))
    exact = derivation(way="independent").step("amplification-mean-square").rhs
    at = dict(zip(sorted(exact.free_symbols, key=str), (layers, residual, 1, 1), strict=True))
    error = np.std(found) / np.sqrt(draws)
    # the norm takes two of the width's directions away, and ‖z‖ is not its mean exactly
    assert np.mean(found) == pytest.approx(float(exact.subs(at)), abs=4 * error + 0.04)


def test_a_decoder_without_cross_attention_is_refused() -> None:
    selection = Selection(
        optimizer="sgd", method="moments", stack="encoder-decoder", layer="attention,ffn"
    )
    with pytest.raises(Refusal, match="no cross-attention"):
        derive(selection)


def test_the_parts_changes_are_mathematics_in_pages() -> None:
    from sympy.printing.mathml import mathml

    right = derivation().step("two-part-bound").rhs
    printed = unescape(mathml(right, printer="presentation"))
    for part in "ed":
        assert f"<mi>{part}</mi><mo>,</mo><mi>i</mi></mrow></msub><mo>‖</mo>" in printed
    assert "change" not in printed
    assert r"\|\Delta\theta_{d,i}\|" in sp.latex(right)
