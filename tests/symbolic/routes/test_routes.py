"""The routes are different computations, and they agree wherever two of them have a law."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.selection import AMPLIFICATIONS, METHODS, Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, depth_expression, exponent_in
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.proof.step import Relation
from deepnet_theory.symbolic.routes.by_method import route_of
from deepnet_theory.symbolic.rule.problem import SolvedRule, solve_rule

# complete may leave a whole curve, of which each route's own default closure takes a point
CLOSURES = sorted(set(closures()) - {"learning-rate", "complete"})
SELECTIONS = st.builds(
    Selection,
    optimizer=st.sampled_from(sorted(optimizers())),
    placement=st.sampled_from(sorted(placements())),
    norm=st.sampled_from(("layer", "rms")),
    stack=st.sampled_from(("encoder", "decoder", "encoder-decoder")),
    amplification=st.sampled_from(AMPLIFICATIONS),
    closure=st.sampled_from(CLOSURES),
)


def rule(selection: Selection) -> SolvedRule | None:
    try:
        return solve_rule(selection)
    except Refusal:
        return None


@pytest.mark.parametrize("placement", placements())
def test_every_step_of_the_probe_route_holds_used_or_not(placement):
    """A blind probe is among them, on which no conclusion rests."""
    route = route_of(Selection(optimizer="sgd", placement=placement))
    assert [step.name for step in route.steps if step.failures()] == []


@settings(max_examples=40, deadline=None)
@given(SELECTIONS)
def test_any_two_routes_end_in_one_rule(selection):
    found = {method: rule(replace(selection, method=method)) for method in METHODS}
    for one, other in combinations((f for f in found.values() if f is not None), 2):
        assert len(one.entries) == len(other.entries)
        for a, b in zip(one.entries, other.entries, strict=True):
            assert (a.part, a.sublayer) == (b.part, b.sublayer)
            for left, right in zip(a.expressions, b.expressions, strict=True):
                ratio = depth_expression(left) / depth_expression(right)
                # the constants are conventions of the routes, the powers are not
                assert all(exponent_in(ratio, depth) == 0 for depth in DEPTHS.values())
    # the two that take the norm over a branch's matrices share the constants too
    if found["lemma"] is not None and found["moments"] is not None:
        assert found["lemma"].entries == found["moments"].entries


@pytest.mark.parametrize("method", METHODS)
def test_the_rule_is_the_value_of_the_last_steps(method):
    derivation = derive(Selection(optimizer="sgd", method=method, stack="encoder-decoder"))
    assert derivation.verdict is Verdict.PROVED
    assert derivation.relation is (Relation.ORDER if method == "probe" else Relation.BOUND)
    stated = {
        step.name: step.rhs for step in derivation.steps if step.name in derivation.conclusion
    }
    for entry in derivation.rule.entries:
        for knob, written in zip(("alpha", "beta"), entry.expressions, strict=True):
            value = stated[f"solution-{entry.part}-{knob}_{entry.part[0]}"]
            assert sp.simplify(depth_expression(written) / value) == 1
    increments = [n for n in derivation.step("sum-encoder").uses if "increment" in n]
    assert increments and all(derivation.step(n) in derivation.support for n in increments)


@pytest.mark.parametrize("method", METHODS)
def test_a_derivation_holds_nothing_that_its_conclusion_does_not_rest_on(method):
    plain = derive(Selection(optimizer="adam", method=method))
    resting = {step.name for step in plain.support}
    beside = {s.name for s in plain.steps} - resting
    # what is said of the rule: its premises, what it does beyond one step, which rules are it
    sections = {s.section for s in plain.steps if s.name in beside and "weight" not in s.name}
    assert sections == {"Self-consistency", "Beyond the first order", "Equivalent rules"}


@pytest.mark.parametrize("method", METHODS)
def test_a_factor_two_in_any_equality_is_refuted(method):
    for step in derive(Selection(optimizer="sgd", method=method)).steps:
        if step.relation is Relation.EQUAL and step.rhs != 0:
            assert replace(step, rhs=2 * step.rhs).check() is Verdict.REFUTED, step.name
