"""A mixture of experts: what it is to one dense branch, proved on explicit experts."""

from dataclasses import replace
from fractions import Fraction

import derivations
import pytest
import sympy as sp

from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.table import table
from deepnet_theory.sizes.width import places
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import sublayer
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.laws import placement as law
from deepnet_theory.symbolic.proof import witness


def test_a_layer_says_how_many_of_how_many_experts():
    own = sublayer("ffn:swiglu@2/8")
    assert (own.name, own.chosen, own.experts) == ("ffn-swiglu@2/8", 2, 8)
    assert [m.name for m in own.unscaled] == ["router"]
    assert own.last_map == sublayer("ffn-swiglu").last_map
    assert sublayer("ffn@8/256").last_map == ("fc2", "fc2_bias")


@pytest.mark.parametrize("name", ["ffn@9/8", "attention@2/8", "ffn@1/1", "ffn@0/8", "ffn@2"])
def test_what_is_no_mixture_is_refused(name):
    with pytest.raises(InputError, match=name):
        sublayer(name)


@pytest.mark.parametrize("name", law.Mixture._fields)
@pytest.mark.parametrize("times", [2, sp.Rational(1, 8), sp.sqrt(2)])
def test_a_planted_number_of_a_mixture_is_refuted(name, times):
    right = getattr(law.mixture(sublayer("ffn@2/8")), name)
    assert right.check() is Verdict.PROVED
    for wrong in ({"rhs": right.rhs * times}, {"lhs": right.lhs * times, "rhs": right.rhs * times}):
        assert replace(right, **wrong).check() is Verdict.REFUTED


@pytest.mark.parametrize("field", witness.Mixed._fields)
def test_experts_that_did_otherwise_would_refute_the_table(field, monkeypatch):
    right = witness.mixed

    def other(of):
        found = right(of)
        return found._replace(**{field: getattr(found, field) * 2}) if of.experts > 1 else found

    monkeypatch.setattr(witness, "mixed", other)
    monkeypatch.setattr("deepnet_theory.symbolic.laws.explicit.mixed", other)
    witness.sizes.cache_clear()
    found = derive(derivations.selection("experts sgd"))
    refuted = [row.of for row in found.measured if row.verdict is Verdict.REFUTED]
    verdict = found.verdict
    witness.sizes.cache_clear()
    assert verdict is Verdict.REFUTED and refuted


@pytest.mark.parametrize(("optimizer", "p"), [("sgd", 1), ("adamw", 0), ("muon", 0)])
@pytest.mark.parametrize(("chosen", "experts"), [(1, 8), (2, 8), (8, 64)])
def test_the_rule_holds_the_number_of_experts_where_the_update_feels_its_gradient(
    optimizer, p, chosen, experts
):
    of = {"optimizer": optimizer, "placement": "pre-ln", "closure": "complete"}
    mixed = table(Selection(**of, layer=f"attention,ffn-swiglu@{chosen}/{experts}"))
    dense = table(Selection(**of, layer="attention,ffn-swiglu"))
    ours, theirs = (of.sublayers[-1] for of in (mixed, dense))
    number = Monomial.number
    assert ours.beta == theirs.beta and ours.rate == theirs.rate * number(experts) ** p
    assert ours.weight == theirs.weight * number(chosen) ** Fraction(-1, 2)
    down, same = (next(r for r in of.parameters if r.parameter == "down") for of in (mixed, dense))
    assert down.gradient == same.gradient / number(experts) and down.share == same.share


@pytest.mark.parametrize("method", ["lemma", "moments"])
def test_a_route_without_a_law_of_experts_says_so(method):
    with pytest.raises(Refusal, match="has no law for the mixture of experts"):
        derive(Selection("sgd", layer="attention,ffn@2/8", method=method))
    with pytest.raises(Refusal, match="no law in the width"):
        list(places(Selection("sgd", layer="attention,ffn@2/8")))
