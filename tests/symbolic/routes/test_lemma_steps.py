"""Every step of the lemma route holds, in order, and errors planted in it are refuted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
import sympy as sp

from deepnet_theory.spec.assumption import assumption
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.rule import Rule, RuleEntry
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra.monomial import N, alpha, beta
from deepnet_theory.symbolic.derivation import Derivation
from deepnet_theory.symbolic.proof.step import Relation, Step
from deepnet_theory.symbolic.routes.lemma.route import lemma_route
from paper_checks.shared.steps.lemma import before_steps, following_steps, given

SELECTIONS = (
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "stack": "encoder-decoder"},
    {"optimizer": "adam", "stack": "encoder-decoder", "amplification": "worst-case"},
    {"optimizer": "lamb", "stack": "decoder"},
    {"optimizer": "muon", "layer": "ffn:swiglu"},
    {"optimizer": "sgd", "layer": "attention,ffn:swiglu"},
    {"optimizer": "sgd", "placement": "pre-ln"},
    {"optimizer": "adam", "placement": "pre-ln", "layer": "attention,ffn:swiglu"},
    {"optimizer": "sgd", "placement": "res-post-ln", "stack": "encoder-decoder"},
    {"optimizer": "lars", "placement": "sandwich-ln", "stack": "encoder-decoder",
     "amplification": "independent"},
    {"update": "-eta*g/sqrt(norm(g))*norm(theta)**(1/3)"},
    {"update": "-eta*g/norm(g)**2"},
    {"update": "-eta*g/norm(g)**(3/2)", "placement": "pre-ln"},
    {"update": "-eta*g/norm(g)**(3/2)", "placement": "res-post-ln"},
)  # fmt: skip


@cache
def steps_of(index: int) -> tuple[Step, ...]:
    """The route's steps with what is told around them."""
    selection = selection_of(index)
    return (*before_steps(), *lemma_route(selection).steps, *following_steps(selection))


def selection_of(index: int) -> Selection:
    return Selection(method="lemma", **SELECTIONS[index])  # type: ignore[arg-type]


def named(name: str, index: int = 0) -> Step:
    return next(step for step in steps_of(index) if step.name == name)


@pytest.mark.parametrize("index", range(len(SELECTIONS)), ids=lambda i: str(SELECTIONS[i]))
def test_every_step_is_proved(index: int) -> None:
    failures = {s.name: s.failures() for s in steps_of(index) if s.failures()}
    assert failures == {}


@pytest.mark.parametrize("index", range(len(SELECTIONS)), ids=lambda i: str(SELECTIONS[i]))
def test_steps_form_a_derivation(index: int) -> None:
    """No symbol or premise is used before it is established, and every assumption exists."""
    selection = selection_of(index)
    steps = steps_of(index)
    route = lemma_route(selection)
    parts = selection.the_stack.parts
    last = route.increments.values()
    derivation = Derivation(
        selection=selection,
        steps=steps,
        given=(*route.given, *given()),
        rule=Rule("none", tuple(RuleEntry(p.name, "*", "1", "1") for p in parts)),
        conclusion=(*route.sums, *(v.name for v in (*last, *route.weights.values()))),
    )
    assert derivation.relation is Relation.BOUND
    assert {"independent-signs", "bounded-loss-gradient"} <= {
        a.name for a in derivation.assumptions
    }
    for step in steps:
        for name in step.assumptions:
            assert assumption(name).statement
    # nothing stands in the route that its sums, increments and weights do not rest on
    assert {step.name for step in derivation.support} == {step.name for step in route.steps}


@pytest.mark.parametrize("index", range(len(SELECTIONS)), ids=lambda i: str(SELECTIONS[i]))
def test_every_sublayer_of_the_stack_has_an_increment_and_a_weight(index: int) -> None:
    route = lemma_route(selection_of(index))
    names = {s.name for part in selection_of(index).the_stack.parts for s in part.layer}
    assert set(route.increments) == set(route.weights) == names
    for name, increment in route.increments.items():
        assert increment.per_eta.free_symbols <= {alpha, beta}
        assert route.weights[name].value.free_symbols <= {alpha, beta}
        assert increment.step in route.steps and route.weights[name].step in route.steps


def test_no_step_prints_a_substitution() -> None:
    for index in range(len(SELECTIONS)):
        for step in steps_of(index):
            assert "Subs(" not in f"{step.lhs} {step.rhs}"


def some_symbol(step: Step) -> sp.Symbol:
    held = step.rhs.free_symbols or step.lhs.free_symbols or {N}
    return min(held - {sp.Symbol("sigma", real=True)}, key=str)


PLANTED = {
    "sign": lambda s: -s.rhs,
    "factor 2": lambda s: 2 * s.rhs,
    "half": lambda s: s.rhs / 2,
    "exponent off by 1/16": lambda s: s.rhs * some_symbol(s) ** sp.Rational(1, 16),
}


def undetected(pairs: Iterable[tuple[Step, Step]]) -> list[str]:
    """The names of the steps whose wrong version is not refuted."""
    return [step.name for step, wrong in pairs if wrong.check() is not Verdict.REFUTED]


@pytest.mark.parametrize("error", PLANTED)
@pytest.mark.parametrize("index", [0, 1, 4, 5, 6, 8, 12, 13])
def test_planted_errors_in_equalities_are_refuted(index: int, error: str) -> None:
    plant = PLANTED[error]
    strict = [s for s in steps_of(index) if s.relation in (Relation.EQUAL, Relation.ASYMPTOTIC)]
    assert len(strict) > 10
    assert undetected((s, replace(s, rhs=plant(s))) for s in strict) == []


@pytest.mark.parametrize("index", [0, 1, 4, 5, 6, 8])
def test_planted_exponents_in_orders_are_refuted(index: int) -> None:
    assert (
        undetected(
            (step, replace(step, rhs=step.rhs * symbol**power))
            for step in steps_of(index)
            if step.relation in (Relation.ORDER, Relation.BOUND)
            for symbol in step.rhs.free_symbols
            for power in (sp.Rational(1, 16), -sp.Rational(1, 16))
        )
        == []
    )


@pytest.mark.parametrize("index", [0, 1, 6, 8])
def test_bounds_are_refuted_with_sides_exchanged_or_a_sign(index: int) -> None:
    bounds = [s for s in steps_of(index) if s.relation is Relation.AT_MOST]
    assert len(bounds) >= 6
    assert undetected((s, replace(s, rhs=-s.rhs)) for s in bounds) == []
    assert undetected((s, replace(s, lhs=s.rhs, rhs=s.lhs)) for s in bounds) == []


def test_a_bound_with_half_its_right_side_is_refuted() -> None:
    """Bounds that are approached cannot be halved."""
    for index in (0, 1, 6):
        bounds = [s for s in steps_of(index) if s.relation is Relation.AT_MOST]
        assert undetected((s, replace(s, rhs=s.rhs / 2)) for s in bounds) == []


def test_every_placement_has_a_route() -> None:
    for name in placements():
        selection = Selection(method="lemma", optimizer="sgd", placement=name)
        assert lemma_route(selection).steps[-1].name == "increment-ffn"


def test_an_update_that_falls_with_the_gradient_needs_more_than_a_bound() -> None:
    """Where p < 0 an upper bound on the gradient bounds nothing: its leading order is taken."""
    assert named("gradient-size", 0).relation is Relation.AT_MOST
    for index in (11, 12, 13):
        step = named("gradient-size", index)
        assert step.relation is Relation.ASYMPTOTIC
        assert "near-identity" in step.assumptions
