"""The lemma route beyond what every derivation shows: its assumptions, bounds and placements."""

from dataclasses import replace

import derivations
import pytest

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.placement import Placement, placements
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.laws import placement as matrix_law
from deepnet_theory.symbolic.routes.lemma.placement import directions, placement_steps
from paper_checks.shared.steps.lemma import before_steps, following_steps

LEMMAS = [name for name, of in derivations.SELECTIONS.items() if of.get("method") == "lemma"]


@pytest.mark.parametrize("name", LEMMAS)
def test_what_the_route_rests_on_and_what_is_told_around_it_holds(name):
    found = {a.name for a in derivations.derivation(name).assumptions}
    assert {"independent-signs", "bounded-loss-gradient"} <= found
    told = (*before_steps(), *following_steps(derivations.selection(name)))
    assert {step.name: step.failures() for step in told if step.failures()} == {}


def test_bounds_are_refuted_with_sides_exchanged_or_halved():
    for name in ("lemma", "lemma both"):
        steps = (s for s in derivations.derivation(name).steps if s.relation.name == "AT_MOST")
        bounds = [s for s in steps if s.section != "Beyond the first order"]
        assert bounds
        for s in bounds:
            for wrong in ({"lhs": s.rhs, "rhs": s.lhs}, {"rhs": s.rhs / 2}):
                assert replace(s, **wrong).check() is Verdict.REFUTED, s.name


def test_an_update_that_falls_with_the_gradient_needs_more_than_a_bound():
    """Where p < 0 an upper bound on the gradient bounds nothing: its leading order is taken."""
    rising, falling = (
        derivations.derivation(n).step("gradient-size") for n in ("lemma", "falling")
    )
    assert rising.relation.name == "AT_MOST" and falling.relation.name == "ASYMPTOTIC"
    assert "near-identity" in falling.assumptions


def test_two_parts_say_how_they_add_and_two_cross_attentions_amplify_twice():
    both = derivations.selection("lemma both")
    for form, named in (
        ("worst-case", "amplification-aligned"),
        ("independent", "amplification-independent"),
    ):
        uses = {s.name: s.uses for s in derive(replace(both, amplification=form)).steps}
        assert uses[named] == ("two-part-bound",)
        assert uses["two-part-bound"] == ("telescoping-unit-jacobians", "cross-attention-response")
    twice = derive(replace(both, layer="attention,cross,cross,ffn"))
    once = derivations.derivation("lemma both")
    assert twice.step("amplification-aligned").rhs == 2 * once.step("amplification-aligned").rhs


@pytest.mark.parametrize(
    "name", sorted(placements().keys() - {"no-norm"})
)  # refused: no norm bounds it
def test_orthogonal_directions_agree_with_the_matrix_law_of_the_placement(name):
    found, law = directions(placements()[name]), matrix_law.placement_law(placements()[name])
    assert (found.weight / law.weight).simplify() == (found.leading / law.response).simplify() == 1


@pytest.mark.parametrize(
    ("equation", "final_norm"),
    [
        ("norm(branch(x))", False),  # no path
        ("x + branch(branch(x))", True),
        ("x + branch(x)", True),  # the stream grows by a factor in every sublayer
        ("x + branch(norm(x))", False),  # nothing normalises the output
        ("norm(alpha*x)", False),  # no branch
        ("alpha", True),
    ],
)
def test_an_equation_without_a_law_is_refused(equation, final_norm):
    with pytest.raises(Refusal, match="no law for the placement 'odd'"):
        placement_steps(directions(Placement("odd", equation, final_norm)))


def test_the_route_refuses_a_branch_of_another_weight(monkeypatch):
    """The layer cake's products of Jacobians hold of norm(alpha*x + branch(x))."""
    half = Placement("mine", "norm(alpha*x + branch(x)/2)", final_norm=True)
    monkeypatch.setattr("deepnet_theory.spec.placement.placements", lambda: {"mine": half})
    selection = Selection(optimizer="sgd", placement="mine")
    assert len(derive(selection).rule.entries) == 1
    with pytest.raises(Refusal, match="the products of Jacobians are known"):
        derive(replace(selection, method="lemma"))
