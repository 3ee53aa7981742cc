"""Every order of one update, ρ, and the closure under which no order changes with the depth."""

from dataclasses import replace
from fractions import Fraction
from math import comb

import pytest
import sympy as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deepnet_theory.sizes.exponents import Exponents
from deepnet_theory.sizes.table import table
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Matrix, Role, Sublayer, Vector, sublayers
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.algebra.monomial import DEPTHS
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.implications.many_steps import beyond_steps
from deepnet_theory.symbolic.laws.optimizer import degrees
from deepnet_theory.symbolic.rule.problem import Problem, solve_rule

LAYERS = (None, "attention,ffn:swiglu", "ffn:swiglu,attention,ffn")
DEPTH = 10**12


def at(expression, depth=DEPTH):
    return float(expression.subs(dict.fromkeys(DEPTHS.values(), depth)))


def measured_orders(problem):
    """S·r((1+ηρ)^m - 1) multiplied out, at two depths: the exponent of each power of η."""
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            sizes = []
            for depth in (DEPTH, DEPTH**2):
                weight = at(balanced.self_consistency(kind, 1), depth)
                rho = at(balanced.relative_update(kind), depth)
                sizes.append([weight * comb(kind.matrices, k) * rho**k for k in (1, 2, 3)])
            for first, second in zip(*sizes, strict=True):
                if first:
                    yield sp.log(second / first) / sp.log(DEPTH)


@pytest.mark.parametrize("placement", placements())
@pytest.mark.parametrize("optimizer", optimizers())
@pytest.mark.parametrize("layer", LAYERS)
def test_complete_keeps_every_order(optimizer, placement, layer):
    selection = Selection(optimizer=optimizer, placement=placement, layer=layer, closure="complete")
    problem = Problem(selection)
    assert all(abs(float(e)) < 1e-6 for e in measured_orders(problem))
    assert {row.state for row in table(selection).sublayers} == {"stable"}
    assert set(Exponents(selection, solve_rule(selection)).all().values()) == {Fraction(0)}


@settings(max_examples=25, deadline=None)
@given(
    p=st.sampled_from(["0", "1/2", "1", "2"]),
    q=st.sampled_from(["0", "1/2", "1", "2", "3"]),
    placement=st.sampled_from(sorted(placements())),
    layer=st.sampled_from(LAYERS),
)
@example(p="0", q="1", placement="post-ln", layer=LAYERS[0])  # the two ends of 1 + p = q
@example(p="2", q="3", placement="post-ln", layer=LAYERS[0])
def test_complete_needs_a_rate_where_the_formula_says(p, q, placement, layer):
    update = f"-eta*norm(theta)**({q})*norm(g)**({p})*sign(g)"
    selection = Selection(update=update, placement=placement, layer=layer, closure="complete")
    problem = Problem(selection)
    found = degrees(selection.the_optimizer)
    assert all(abs(float(e)) < 1e-6 for e in measured_orders(problem))
    left = 1 + found.p - found.q
    for balanced in problem.balanced:
        for kind in balanced.kinds:
            if problem.law.has_alpha:  # α makes the branch's weight, β has ρ alone
                possible = left != 0 or found.p == 0
            else:  # β makes both
                possible = found.p * kind.matrices == left
            assert (balanced.rate_of(kind) == 1) == possible
            steps = beyond_steps(problem, balanced)
            tag = kind.tag(balanced.part.name)
            told = next(s for s in steps if s.name == f"complete-knobs-{tag}")
            assert told.check() is Verdict.PROVED
            assert ("without kappa" in told.because) == possible


def test_known_rules():
    def rule(**select):
        return [(e.alpha, e.beta, e.rate, e.rho) for e in solve_rule(Selection(**select)).entries]

    complete = {"closure": "complete"}
    assert rule(optimizer="adam", **complete) == [("2*N", "1", "1", "1")]
    assert rule(optimizer="adam") == [("(2*N)**(1/2)", "(2*N)**(-1/2)", "1", "(2*N)**(1/2)")]
    assert rule(optimizer="sgd", **complete) == [("1", "(2*N)**(-1/2)", "1", "1")]
    assert rule(optimizer="sgd")[0][3] == "(2*N)**(-1/4)"
    assert rule(optimizer="lamb", **complete) == rule(optimizer="lamb")
    assert rule(optimizer="adam", placement="pre-ln")[0][3] == "2*N"
    half = "(2*N)**(-1/2)"
    assert rule(optimizer="adam", placement="pre-ln", **complete) == [("1", half, half, "1")]
    assert rule(optimizer="adam", placement="branch-multiplier", **complete) == [
        ("2*N", "1", "1", "1")
    ]


def test_states_and_failing_rates():
    def of(**select):
        (found,) = table(Selection(**select)).sublayers
        return found.state, str(found.failing)

    assert of(optimizer="adam")[0] == "unstable"
    assert of(optimizer="sgd")[0] == "lazy"
    assert of(optimizer="lamb")[0] == "stable"
    assert of(optimizer="adam")[1] == "(2*N)**(-1/4)"
    assert of(optimizer="adam", placement="pre-ln")[1] == "(2*N)**(-1/2)"


@pytest.mark.parametrize("form", ["published", "worst-case", "independent"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb", "muon"])
def test_both_parts_are_complete(optimizer, form):
    selection = Selection(
        optimizer=optimizer, stack="encoder-decoder", closure="complete", amplification=form
    )
    derivation = derive(selection)
    assert derivation.verdict is Verdict.PROVED
    assert {e.rho for e in derivation.rule.entries} == {"1"}


@pytest.mark.parametrize("factor", [sp.Rational(1, 1000), sp.Integer(1000)])
def test_a_bound_of_aligned_steps_that_does_not_hold_or_is_far_is_refused(factor):
    step = derive(Selection(optimizer="adam", closure="complete")).step("aligned-steps-encoder")
    assert step.failures() == ()
    assert "both sides at many depths" in str(replace(step, rhs=factor * step.rhs).failures())


@pytest.mark.parametrize("closure", [None, "complete"])
@pytest.mark.parametrize("optimizer", optimizers())
def test_the_bound_of_aligned_steps_is_judged_to_30_digits(optimizer, closure):
    derivation = derive(
        Selection(
            optimizer=optimizer, method="lemma", layer="attention,ffn:swiglu", closure=closure
        )
    )
    bounds = [step for step in derivation.steps if step.name.startswith("aligned-steps-")]
    assert bounds
    for step in bounds:
        assert step.failures() == ()
        # in depth both sides agree to some 48 digits where S*r keeps its order
        lowered = replace(step, rhs=(1 - sp.Rational(1, 10**30)) * step.rhs)
        if derivation.orders[0].state == "stable":
            assert lowered.failures()


def test_one_alpha_for_kinds_of_different_matrices():
    selection = Selection(
        optimizer="sgd", layer="attention,ffn:swiglu", one_alpha=True, closure="complete"
    )
    attention, swiglu = solve_rule(selection).entries
    assert attention.alpha == swiglu.alpha == "1"
    assert (attention.rate, swiglu.rate) == ("1", "(2*N)**(1/3)")
    assert attention.rho == swiglu.rho == "1"


def test_no_method_is_without_it():
    for method in ("lemma", "moments"):
        for optimizer in ("sgd", "adam"):
            derivation = derive(Selection(optimizer=optimizer, method=method, closure="complete"))
            assert derivation.verdict is Verdict.PROVED
            assert derivation.rule.entries[0].rho == "1"


def test_what_leaves_the_identity_is_still_refused():
    with pytest.raises(Refusal, match="grow"):
        derive(Selection(optimizer="adam", placement="pre-ln", closure="learning-rate"))


def test_the_answer_says_what_happens_in_depth():
    told = {name: derive(Selection(optimizer=name)).in_depth for name in ("adam", "sgd", "lamb")}
    assert told["adam"].startswith(
        "Unstable in depth: rho scales as N^(1/2), and with it the higher orders; the largest "
        "stable learning rate scales as N^(-1/4). For training take the closure complete."
    )
    assert told["sgd"].startswith("Lazy in depth: rho scales as N^(-1/4)")
    assert told["lamb"].startswith("Stable in depth") and "--closure" not in told["lamb"]
    assert derive(Selection(optimizer="adam", closure="complete")).warning == ""


def test_the_json_holds_rate_rho_and_orders():
    data = derive(Selection(optimizer="adam", placement="pre-ln")).to_dict()
    (entry,), (kind,) = data["rule"], data["orders"]
    assert (entry["rate"], entry["rho"]) == ("1", "2*N")
    assert kind["state"] == "unstable" and len(kind["orders"]) == 2


LINEAR = Sublayer(
    name="linear",
    branch="x*out + out_bias",
    matrices=(Matrix("out", Role.SCALED, "d", "d"),),
    vectors=(Vector("out_bias", Role.OUTPUT_BIAS),),
)


def test_one_matrix_a_branch_has_no_second_order_and_leaves_rho_to_decide(monkeypatch):
    known = sublayers()
    monkeypatch.setattr(
        "deepnet_theory.spec.sublayer.sublayers", lambda: {**known, "linear": LINEAR}
    )
    derivation = derive(Selection(optimizer="adam", layer="linear"))
    (kind,) = derivation.orders
    assert derivation.verdict is Verdict.PROVED
    assert kind.state == "stable" and len(kind.orders) == 1 and str(kind.rho) != "1"
    assert "left to decide" in derivation.step("complete-knobs-encoder").because
    # where the balance does without kappa it stays 1, though rho is then not of order one
    update = "-eta*norm(theta)**2*sign(g)"
    entry = solve_rule(
        Selection(update=update, layer="linear", placement="pre-ln", closure="complete")
    ).entries[0]
    assert (entry.rate, entry.rho) == ("1", "N**(-1/2)")
    mixed = solve_rule(
        Selection(
            optimizer="adam", layer="attention,linear", placement="pre-ln", closure="complete"
        )
    )
    assert [e.rate for e in mixed.entries] == ["(2*N)**(-1/2)", "1/(2*N)"]


def test_what_each_other_parameter_would_need():
    def remarks(**select):
        derivation = derive(Selection(closure="complete", **select))
        return {c.name: c.remark for c in derivation.consequences if c.name.startswith("share-")}

    sgd, adam = remarks(optimizer="sgd"), remarks(optimizer="adam")
    assert "the learning-rate multiplier 2*N would balance it" in sgd["share-query"]
    assert adam["share-query"] == adam["share-key"] == "equal"
    assert "1/(2*N) balances it" in adam["share-norm_gain"]
    assert "no learning rate" in adam["share-key_bias"]
