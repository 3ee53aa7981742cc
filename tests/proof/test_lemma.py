"""The lemma route: its assumptions, bounds and placements."""

import math
import re
from dataclasses import replace
from itertools import product

import derivations
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.placement import PLACEMENTS, Placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.derivation import derive
from deepnet_theory.proof.lemma import route
from deepnet_theory.proof.step import written_out

LEMMAS = [name for name, of in derivations.SELECTIONS.items() if of.get("method") == "lemma"]


@pytest.mark.parametrize("name", LEMMAS)
def test_what_the_route_rests_on(name):
    premises = {a.name for a in derivations.derivation(name).assumptions}
    assert {"independent-signs", "bounded-loss-gradient"} <= premises


def test_bounds_are_refuted_with_sides_exchanged_or_halved():
    for name in ("lemma", "lemma both"):
        steps = derivations.derivation(name).steps
        bounds = [s for s in steps if s.relation.name == "AT_MOST"]
        assert bounds
        for s in bounds:
            for wrong in ({"lhs": s.rhs, "rhs": s.lhs}, {"rhs": s.rhs / 2}):
                assert replace(s, **wrong).check() is Verdict.REFUTED, s.name


@pytest.mark.parametrize(
    ("select", "what"),
    [
        *(({"placement": name}, PLACEMENTS[name].equation)
          for name in sorted(PLACEMENTS.keys() - {"post-ln", "pre-ln"})),
        ({"update": "-eta*g/norm(g)**(3/2)"}, "falls with its gradient"),
    ],
)  # fmt: skip
def test_what_the_route_does_not_cover_is_refused_with_the_probes_name(select, what):
    select = {"method": "lemma", **({"optimizer": "sgd"} if "update" not in select else {}),
              **select}  # fmt: skip
    with pytest.raises(Refusal, match=re.escape(what)) as refused:
        route(Selection(**select))
    assert "use the method probe" in str(refused.value)


def test_the_route_refuses_a_branch_of_another_weight(monkeypatch):
    """The layer cake's products of Jacobians hold of norm(alpha*x + branch(x))."""
    half = Placement("mine", "norm(alpha*x + branch(x)/2)", final_norm=True)
    monkeypatch.setattr("deepnet_theory.definitions.placement.PLACEMENTS", {"mine": half})
    selection = Selection(optimizer="sgd", placement="mine")
    assert len(derive(selection).rule.entries) == 1
    with pytest.raises(Refusal, match="the lemma route covers"):
        derive(replace(selection, method="lemma"))


@settings(max_examples=15, deadline=None)
@given(st.floats(0.01, 0.99), st.integers(1, 6))
def test_the_mean_square_of_the_products_of_jacobians(r, count):
    patterns = product((1, -1), repeat=count)
    products = [math.prod((1 + s * r) / math.sqrt(1 + r * r) for s in one) for one in patterns]
    found = derivations.derivation("lemma").step("jacobian-mean-square")
    (Q,) = (s for s in found.lhs.free_symbols if s.name == "Q")
    summed = written_out(found.lhs.subs(Q, count))
    (weight,) = summed.free_symbols
    assert float(summed.subs(weight, r)) == pytest.approx(np.square(products).mean())
    assert found.rhs == 1
