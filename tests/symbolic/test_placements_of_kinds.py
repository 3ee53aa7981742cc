"""A placement for each kind of sublayer: each has its own law, and all of them share S."""

import pytest

import deepnet_theory as dt
from deepnet_theory.runtime import build
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.placement import placement
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic import measured
from deepnet_theory.symbolic.derive import derive
from deepnet_theory.symbolic.laws.placement import placement_law
from deepnet_theory.symbolic.rule.problem import Problem

HYBRID = "attention-qkv-norm:post-ln,ffn:no-norm"


def test_a_sublayer_may_name_its_placement():
    (part,) = stack("encoder", "attention, ffn:swiglu:post-ln").parts
    assert part.described == "attention, ffn-swiglu:post-ln"
    assert [s.placement for s in part.layer] == ["", "post-ln"]
    assert [s.name for s in stack("encoder", "ffn-swiglu@2/8:pre-ln").sublayers] == [
        "ffn-swiglu@2/8:pre-ln"
    ]
    for layer, said in {
        "attention,ffn:nowhere": "ffn-nowhere",
        "attention,ffn:pre-ln:post-ln": "has two placements; a sublayer has one",
        "attention+ffn:pre-ln": "the branches of one sum have one residual equation",
    }.items():
        with pytest.raises(InputError, match=said):
            stack("encoder", layer)


def test_what_has_no_law_with_several_placements_is_refused():
    of = {"optimizer": "adam", "layer": "attention,ffn:pre-ln"}
    with pytest.raises(InputError, match="several placements, whose alphas are not one alpha"):
        Selection(**of, one_alpha=True)
    for more, said in (
        ({"method": "lemma"}, "runs through sublayers of one residual equation"),
        ({"method": "moments"}, "runs through sublayers of one residual equation"),
        ({"layer": "attention,cross,ffn:pre-ln", "stack": "encoder-decoder"},
         "how a decoder of several placements amplifies its encoder has no law here"),
        ({"closure": "learning-rate", "layer": None, "placement": "no-norm"},
         "leaves the neighbourhood of the identity"),
    ):  # fmt: skip
        with pytest.raises(Refusal, match=said):
            solve_rule(Selection(**{**of, **more}))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
def test_each_kind_has_what_its_own_placement_has_at_the_same_S(optimizer):
    of = {"optimizer": optimizer, "closure": "complete"}
    mixed = texts(solve_rule(Selection(**of, layer="attention,1/2*ffn:pre-ln,1/2*ffn:post-ln")))
    for kind, where in (("attention", "post-ln"), ("ffn:pre-ln", "pre-ln")):
        alike = texts(solve_rule(Selection(**of, placement=where)))
        own, other = (rule.entry("encoder", kind.partition(":")[0] if rule is alike else kind)
                      for rule in (mixed, alike))  # fmt: skip
        assert (own.alpha, own.beta, own.rate) == (other.alpha, other.beta, other.rate)
    # a placement that is named and is that of all is none of its own
    named, plain = (Selection("adam", layer=layer) for layer in ("attention,ffn:post-ln", None))
    assert texts(solve_rule(named)).entries == texts(solve_rule(plain)).entries


def test_a_rule_of_several_placements_is_proved_and_one_placement_for_all_is_refuted(monkeypatch):
    of = Selection("adam", layer=HYBRID)
    found = derive(of)
    assert (found.verdict, found.closure) == (Verdict.PROVED, "complete")
    one = placement("branch-multiplier")
    with monkeypatch.context() as planted:
        planted.setattr(measured.Place, "placement", property(lambda place: one))
        assert derive(Selection("adamw", layer=HYBRID)).verdict is Verdict.REFUTED
    monkeypatch.setattr(Problem, "law", lambda problem, sublayer: placement_law(one))
    assert derive(Selection("sgd", layer=HYBRID)).verdict is Verdict.REFUTED


def test_it_is_built_with_the_norms_of_each_kind():
    constants = dt.export(dt.derive(optimizer="adam", layer=HYBRID), depth=2, width=16, heads=2)
    assert constants.placements == ("post-ln", "no-norm")
    part = build(dt.Constants.from_json(constants.to_json())).parts["encoder"]
    norms = [[len(residual.norms) for residual in layer] for layer in part.layers]
    assert (norms, part.final_norm is None) == ([[1, 0], [1, 0]], False)
    other = dt.export(dt.derive(optimizer="adam", layer="attention:no-norm,ffn"), depth=2, width=16)
    assert build(other).parts["encoder"].final_norm is None  # the last sublayer ends in one


@pytest.mark.slow
@pytest.mark.parametrize("layer", [HYBRID, "attention,ffn:pre-ln"])
def test_it_is_measured_constant(layer):
    found = dt.verify(
        dt.derive(optimizer="adam", layer=layer), depths=[8, 16, 32, 64], seeds=4, width=32,
        tokens=16,
    )  # fmt: skip
    assert found.verdict is Verdict.SUPPORTED and found.constant
