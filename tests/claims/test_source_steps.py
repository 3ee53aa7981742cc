"""What a route rests on: every step proved by its second route, planted errors refuted."""

from dataclasses import replace

import pytest
import sympy as sp

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.algebra import Normalise
from deepnet_theory.proof.derivation import derive
from deepnet_theory.proof.placement import x
from paper_checks.shared.steps.catalogue import asides_of, background, layer_cake
from paper_checks.shared.steps.nodes import Loss

SELECTIONS = {
    "probe": Selection(optimizer="sgd"),
    "pre-ln": Selection(optimizer="sgd", placement="pre-ln"),
    "cross": Selection(optimizer="sgd", stack="encoder-decoder"),
    "lemma": Selection(optimizer="sgd", method="lemma"),
}


STEPS = {
    (key, step.name): step
    for key, steps in (
        *((key, asides_of(selection).before) for key, selection in SELECTIONS.items()),
        ("cake", layer_cake().steps[:4]),
    )
    for step in steps
}
# a step that several selections have is planted once
ONCE = list({step: key for key, step in reversed(STEPS.items())}.values())


def planted(step):
    """Wrong right-hand sides: a sign, a factor 2 where constants count, one symbol squared."""
    right, relation = step.rhs, step.relation.name
    scalars = [s for s in right.free_symbols if s.is_commutative and s not in step.bounded]
    if relation == "AT_MOST":
        return [-right]
    if relation == "BOUND":
        return [right / s for s in scalars]
    if relation == "ASYMPTOTIC":
        return [-right, 2 * right, right * step.regime.variable]
    exact = [-right, 2 * right, right / 2, right + 1] if relation == "EQUAL" else []
    wrong = [*exact, *(right.subs(s, s**2) for s in scalars if not s.is_integer)]
    return [w for w in wrong if w != right]


@pytest.mark.parametrize("key", ONCE, ids="-".join)
def test_every_step_is_proved_and_planted_errors_are_refuted(key):
    step = STEPS[key]
    assert step.failures() == ()
    for right in planted(step):
        assert replace(step, rhs=right).check() is Verdict.REFUTED, right
    if step.relation.name == "AT_MOST":
        assert replace(step, lhs=step.rhs, rhs=step.lhs).check() is Verdict.REFUTED


def test_the_gradient_in_one_magnitude_holds_the_other():
    """∂L/∂λ₁ = O(λ₂/α), not O(λ₁/α); and query and key see both of the others."""
    orders = {key[1]: step.rhs for key, step in STEPS.items() if key[0] == "probe"}
    one, two, v, o, a = sp.symbols("lambda_1 lambda_2 lambda_v lambda_o alpha", positive=True)
    q, k = sp.symbols("lambda_q lambda_k", positive=True)
    assert orders["order-ffn-fc1"] == two / a and orders["order-ffn-fc2"] == one / a
    assert orders["order-attention-value"] == o / a and orders["order-attention-output"] == v / a
    assert orders["order-attention-query"] == k * v * o / a
    assert orders["order-attention-key"] == q * v * o / a
    swapped = replace(STEPS["probe", "order-ffn-fc1"], rhs=one / a)
    assert swapped.check() is Verdict.REFUTED


def test_the_chain_rule_keeps_every_factor():
    """Without the norm's Jacobian, or at another point, the derivative of the loss is wrong."""
    step = STEPS["probe", "chain-ffn-fc1"]
    z = step.lhs.args[0].args[0].args[0]
    magnitude = step.lhs.args[1][0]
    without_norm = sp.expand_mul(sp.diff(Loss(z), magnitude))
    elsewhere = step.rhs.xreplace({z: x})
    assert Normalise(z) == step.lhs.args[0].args[0] and elsewhere != step.rhs
    for wrong in (without_norm, elsewhere):
        assert replace(step, rhs=wrong).check() is Verdict.REFUTED


def test_each_route_is_told_what_it_rests_on_and_each_equation_by_its_place():
    names = {key: {name for where, name in STEPS if where == key} for key in SELECTIONS}
    assert "stream-unrolled" in names["pre-ln"] and "branch-norm" not in names["pre-ln"]
    assert "stream-unrolled" not in names["probe"] and "branch-norm" in names["probe"]
    assert {"attention", "chain-through-the-stack"} <= names["lemma"]
    assert "chain-cross-value" in names["cross"]
    for name, end in {
        "factored-ffn": "second and third equations",
        "chain-attention-value": "third equation",
        "order-ffn-fc2": "fifth equation",
        "chain-attention-query": "§Self-attention",
    }.items():
        assert STEPS["probe", name].source.endswith(end)
    assert STEPS["cross", "chain-cross-value"].source.startswith("derived here")


@pytest.mark.parametrize("key", SELECTIONS)
def test_the_route_itself_is_as_without_background(key):
    plain, full = derive(SELECTIONS[key]), background(SELECTIONS[key])
    told = asides_of(SELECTIONS[key])
    assert {s.name for s in (*told.before, *plain.steps, *told.after)} <= {
        s.name for s in full.steps
    }
    assert full.rule == plain.rule and full.relation == plain.relation
    assert not any("Subs" in f"{step.lhs} {step.rhs}" for step in full.steps)


@pytest.mark.parametrize("side", ["lhs", "rhs"])
def test_a_product_of_matrices_is_not_another_operation(side):
    step = STEPS["pre-ln", "two-layers-as-one"]
    products = [e for e in sp.preorder_traversal(getattr(step, side)) if e.is_Mul]
    assert products
    for e in products:
        for wrong in (sp.Pow(*e.args, evaluate=False), sp.Add(*e.args), sp.Mul(*e.args[::-1])):
            planted = getattr(step, side).xreplace({e: wrong})
            assert replace(step, **{side: planted}).check() is Verdict.REFUTED, wrong
