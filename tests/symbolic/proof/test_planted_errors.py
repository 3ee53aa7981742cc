"""Every step is checked by a route that sees an error planted in it."""

from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, alpha
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.proof.step import Check, Relation, Step
from paper_checks.shared.steps.catalogue import asides_of

N, M = DEPTHS["N"], DEPTHS["M"]
DERIVATIONS = {
    "post-ln": derive(Selection(optimizer="sgd")),
    "res-post-ln": derive(Selection(optimizer="adam", placement="res-post-ln")),
    "swiglu": derive(Selection(optimizer="lamb", layer="attention,ffn:swiglu")),
    "encoder-decoder": derive(Selection(optimizer="sgd", stack="encoder-decoder")),
    "complete": derive(Selection(optimizer="adam", placement="pre-ln", closure="complete")),
}
STEPS = [
    pytest.param(step, id=f"{name}-{step.name}")
    for name, derivation in DERIVATIONS.items()
    for step in derivation.steps
    if step.rhs != 0
]


@pytest.mark.parametrize("step", STEPS)
def test_a_sign_is_caught(step):
    assert step.check() is (Verdict.IMPOSED if step.imposed else Verdict.PROVED)
    if step.relation.name == "EQUAL":
        assert replace(step, rhs=-step.rhs).check() is Verdict.REFUTED


@pytest.mark.parametrize("step", STEPS)
def test_a_factor_two_is_caught_where_the_relation_is_exact(step):
    planted = replace(step, rhs=2 * step.rhs).check()
    exact = step.relation.name == "EQUAL"
    assert planted is (Verdict.REFUTED if exact else Verdict.PROVED)
    assert not exact or replace(step, lhs=2 * step.lhs).check() is Verdict.REFUTED


@pytest.mark.parametrize("step", STEPS)
def test_an_exponent_off_by_a_sixteenth_is_caught(step):
    # in whatever the step speaks of: a depth where it has one, else α or one of its scalars
    symbols = [s for s in step.free_symbols if s.is_commutative and s.is_positive]
    preferred = [s for s in (N, M, alpha) if s in symbols]
    if step.name.startswith("closure-"):
        preferred = [N]  # alpha = alpha^(1/16) is the same condition as alpha = 1
    chosen = (preferred or sorted(symbols, key=str) or [N])[0]
    planted = replace(step, rhs=step.rhs * chosen ** sp.Rational(1, 16))
    assert planted.check() is Verdict.REFUTED


@pytest.mark.parametrize("name", DERIVATIONS)
def test_layers_for_sublayers_are_caught(name):
    for step in DERIVATIONS[name].steps:
        if (
            step.name.startswith(("sum-", "solution-", "self-consistency-"))
            and N in step.rhs.free_symbols
        ):
            assert replace(step, rhs=step.rhs.subs(N, N / 2)).check() is Verdict.REFUTED


def blind(check: Check, step: Step) -> bool:
    """Whether a check by itself passes a bound of a tenth, or else every error that is planted."""
    scalars = {s for s in step.free_symbols if s.is_commutative and s.is_positive} | {N, M}
    powers = (step.rhs * s ** sp.Rational(1, 16) for s in sorted(scalars, key=str))
    alone = replace(step, checks=(check,))
    if step.relation is Relation.AT_MOST:
        return not replace(alone, rhs=step.rhs / 10).failures()
    wrong = [replace(alone, rhs=r) for r in (-step.rhs, 2 * step.rhs, step.rhs + 1, *powers)]
    return not any(planted.failures() for planted in (*wrong, replace(alone, lhs=2 * step.lhs)))


BOTH = {"optimizer": "sgd", "stack": "encoder-decoder"}
# a selection, and a knob that no increment of its placement feels
SELECTIONS = [
    ({**BOTH, "method": "probe"}, None),
    ({**BOTH, "method": "lemma"}, None),
    ({**BOTH, "method": "moments"}, None),
    ({"optimizer": "adam", "placement": "pre-ln", "method": "moments"}, "alpha"),
    ({"optimizer": "lamb", "placement": "sandwich-ln", "method": "lemma"}, "beta"),
]


@pytest.fixture(scope="module", params=SELECTIONS, ids=lambda given: "-".join(given[0].values()))
def told(request):
    select, unfelt = request.param
    selection = Selection(**select)
    asides = asides_of(selection)
    steps = (*derive(selection).steps, *asides.before, *asides.after)
    return {s.name: s for s in steps}.values(), unfelt


def test_a_doubled_left_hand_side_is_caught(told):
    steps, _ = told
    exact = (s for s in steps if s.relation in (Relation.EQUAL, Relation.ASYMPTOTIC))
    # what is 0 is 0 when doubled: E[z] = 0, a determinant
    unseen = [s.name for s in exact if s.rhs != 0 and not replace(s, lhs=2 * s.lhs).failures()]
    # a bound is not reached, and need not see a factor two; a hundred million it must
    bounds = (s for s in steps if s.relation is Relation.AT_MOST)
    unseen += [s.name for s in bounds if not replace(s, lhs=10**8 * s.lhs).failures()]
    assert unseen == []


def test_each_check_of_a_step_sees_an_error_without_the_others(told):
    steps, unfelt = told
    found = [
        (step.name, check.name)
        for step in steps
        for check in step.checks
        if step.rhs != 0 and blind(check, step)
    ]
    # a knob that no increment of the placement feels is seen by other checks alone
    whole = [(f"solution-encoder-{unfelt}", "the whole stack added up")]
    assert found == ([] if unfelt is None else whole)
