"""Layers that lack a sublayer: S counts those that stand there, and the rule is asked by S."""

from fractions import Fraction

import pytest

from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts
from deepnet_theory.spec.errors import InputError, Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part, in_turn, stack
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.derive import derive

MIXED = "attention,1/4*ffn,3/4*ffn-swiglu"


def test_a_share_says_how_many_layers_have_a_sublayer():
    (part,) = stack("decoder", "attention, 1/4 * ffn,3/4*ffn:swiglu").parts
    assert part.shares == (1, Fraction(1, 4), Fraction(3, 4))
    assert (part.sublayers_per_layer, part.period) == (2, 4)
    assert part.described == "attention, 1/4*ffn, 3/4*ffn-swiglu"
    kinds = [s.name for s in part.listed(4)]
    assert kinds == ["attention", "ffn"] + 3 * ["attention", "ffn-swiglu"]
    assert [in_turn([4, 1, 3], 4, i) for i in range(4)] == [[0, 1], [0, 2], [0, 2], [0, 2]]


@pytest.mark.parametrize("share", ["0", "5/4", "-1/4", "1/0", "a", "", "1/1001", "nan"])
def test_a_share_is_a_part_of_the_layers(share):
    with pytest.raises(InputError, match=r"has the share .* a share is a fraction of the layers"):
        stack("encoder", f"attention,{share}*ffn")


def test_what_has_no_law_with_shares_is_refused():
    with pytest.raises(InputError, match="has branches in parallel; then all layers are alike"):
        stack("encoder", "attention+ffn,1/4*ffn")
    with pytest.raises(Refusal, match="the lemma route runs through layers that are alike"):
        solve_rule(Selection("sgd", layer=MIXED, method="lemma"))
    with pytest.raises(InputError, match="says the layers of 2 parts, which 'decoder' lacks"):
        stack("decoder", "attention,ffn;attention,ffn")


def test_both_parts_may_have_layers_of_their_own():
    encoder, decoder = stack(
        "encoder-decoder", "attention,ffn:swiglu;attention,1/2*cross,ffn"
    ).parts
    assert encoder.described == "attention, ffn-swiglu"
    assert (decoder.sublayers_per_layer, decoder.crossings) == (Fraction(5, 2), Fraction(1, 2))


@pytest.mark.parametrize("placement", ["post-ln", "pre-ln"])
@pytest.mark.parametrize("closure", ["unit-residual", "complete"])
def test_each_kind_has_what_it_has_in_layers_that_are_alike_at_the_same_S(placement, closure):
    of = {"optimizer": "adamw", "placement": placement, "closure": closure}
    mixed = texts(solve_rule(Selection(**of, layer="attention,1/4*cross,1/4*ffn,1/2*ffn-swiglu",
                                       stack="encoder-decoder")))  # fmt: skip
    for kind, layer in (("ffn", "attention,cross,ffn"), ("ffn-swiglu", "cross,ffn-swiglu")):
        alike = texts(solve_rule(Selection(**of, layer=layer, stack="encoder-decoder")))
        count = 1 + layer.count(",")
        own = mixed.entry("decoder", kind).at(N=8, M=12 * count)
        assert own == pytest.approx(alike.entry("decoder", kind).at(N=8, M=24))


def test_a_rule_of_layers_that_differ_is_proved_and_another_count_is_refuted(monkeypatch):
    of = {"optimizer": "adamw", "placement": "pre-ln", "closure": "complete"}
    both = "attention,ffn-swiglu;attention,1/4*cross,1/4*ffn,3/4*ffn-swiglu"
    assert derive(Selection(**of, layer=MIXED)).verdict is Verdict.PROVED
    found = derive(Selection("adamw", stack="encoder-decoder", layer=both))
    assert found.verdict is Verdict.PROVED
    monkeypatch.setattr(
        Part, "sublayers_per_layer", property(lambda part: Fraction(len(part.layer)))
    )
    assert derive(Selection(**of, layer=MIXED)).verdict is Verdict.REFUTED
