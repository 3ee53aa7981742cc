"""Sublayers of several kinds: placements of their own, and layers that lack a sublayer.

Each kind has what its own placement has at the same S, and S counts the sublayers that stand there.
"""

from fractions import Fraction

import pytest

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.definitions.placement import placement
from deepnet_theory.definitions.selection import Part, Selection, in_turn, stack
from deepnet_theory.proof import explicit
from deepnet_theory.proof.derivation import derive
from deepnet_theory.proof.placement import placement_law
from deepnet_theory.proof.rule import Problem
from deepnet_theory.runtime import build
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts

HYBRID = "attention-qkv-norm:post-ln,ffn:no-norm"
SHARES = "attention,1/4*ffn,3/4*ffn-swiglu"


def test_a_layer_says_the_placements_and_the_shares_of_its_sublayers():
    (part,) = stack("encoder", "attention, ffn:swiglu:post-ln").parts
    assert part.described == "attention, ffn-swiglu:post-ln"
    assert [s.placement for s in part.layer] == ["", "post-ln"]
    (experts,) = stack("encoder", "ffn-swiglu@2/8:pre-ln").sublayers
    assert experts.name == "ffn-swiglu@2/8:pre-ln"
    (part,) = stack("decoder", "attention, 1/4 * ffn,3/4*ffn:swiglu").parts
    assert part.shares == (1, Fraction(1, 4), Fraction(3, 4))
    assert (part.sublayers_per_layer, part.period) == (2, 4)
    assert part.described == "attention, 1/4*ffn, 3/4*ffn-swiglu"
    kinds = [s.name for s in part.listed(4)]
    assert kinds == ["attention", "ffn"] + 3 * ["attention", "ffn-swiglu"]
    assert [in_turn([4, 1, 3], 4, i) for i in range(4)] == [[0, 1], [0, 2], [0, 2], [0, 2]]
    encoder, decoder = stack(
        "encoder-decoder", "attention,ffn:swiglu;attention,1/2*cross,ffn"
    ).parts
    assert encoder.described == "attention, ffn-swiglu"
    assert (decoder.sublayers_per_layer, decoder.crossings) == (Fraction(5, 2), Fraction(1, 2))


SHARE = r"has the share .* a share is a fraction of the layers"
ONE_EQUATION = "runs through sublayers of one residual equation"
KINDS = {"optimizer": "adam", "layer": "attention,ffn:pre-ln"}
REFUSED = (  # what is asked for, of which error, and what is said
    *((lambda layer=layer: stack("encoder", layer), InputError, says) for layer, says in (
        ("attention,ffn:nowhere", "ffn-nowhere"),
        ("attention,ffn:pre-ln:post-ln", "has two placements; a sublayer has one"),
        ("attention+ffn:pre-ln", "the branches of one sum have one residual equation"),
        ("attention+ffn,1/4*ffn", "has branches in parallel; then all layers are alike"),
        *((f"attention,{share}*ffn", SHARE)
          for share in ("0", "5/4", "-1/4", "1/0", "a", "", "1/1001", "nan")),
    )),
    (lambda: stack("decoder", "attention,ffn;attention,ffn"), InputError,
     "says the layers of 2 parts, which 'decoder' lacks"),
    (lambda: Selection(**KINDS, one_alpha=True), InputError,
     "several placements, whose alphas are not one alpha"),
    *((lambda more=more: solve_rule(Selection(**{**KINDS, **more})), Refusal, says)
      for more, says in (
        ({"method": "lemma"}, ONE_EQUATION),
        ({"layer": SHARES, "method": "lemma"},
         "the lemma route runs through layers that are alike"),
        ({"layer": "attention,cross,ffn:pre-ln", "stack": "encoder-decoder"},
         "how a decoder of several placements amplifies its encoder has no law here"),
        ({"closure": "learning-rate", "layer": None, "placement": "no-norm"},
         "leaves the neighbourhood of the identity"),
    )),
)  # fmt: skip


@pytest.mark.parametrize(("asked", "error", "says"), REFUSED)
def test_what_has_no_law_or_is_no_layer_is_refused(asked, error, says):
    with pytest.raises(error, match=says):
        asked()


# ---- a placement for each kind ----


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
def test_each_kind_has_what_its_own_placement_has_at_the_same_S(optimizer):
    select = {"optimizer": optimizer, "closure": "complete"}
    layer = "attention,1/2*ffn:pre-ln,1/2*ffn:post-ln"
    mixed = texts(solve_rule(Selection(**select, layer=layer)))
    for kind, where in (("attention", "post-ln"), ("ffn:pre-ln", "pre-ln")):
        alike = texts(solve_rule(Selection(**select, placement=where)))
        ours = mixed.entry("encoder", kind)
        theirs = alike.entry("encoder", kind.partition(":")[0])
        assert (ours.alpha, ours.beta, ours.rate) == (theirs.alpha, theirs.beta, theirs.rate)
    # a placement that is named and is that of all is none of its own
    named, plain = (Selection("adam", layer=layer) for layer in ("attention,ffn:post-ln", None))
    assert texts(solve_rule(named)).entries == texts(solve_rule(plain)).entries


def test_a_rule_of_several_placements_is_proved_and_one_placement_for_all_is_refuted(monkeypatch):
    proved = derive(Selection("adam", layer=HYBRID))
    assert (proved.verdict, proved.closure) == (Verdict.PROVED, "complete")
    one = placement("branch-multiplier")
    with monkeypatch.context() as planted:
        planted.setattr(explicit.Place, "placement", property(lambda place: one))
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
    result = dt.verify(
        dt.derive(optimizer="adam", layer=layer), depths=[8, 16, 32, 64], seeds=4, width=32,
        tokens=16,
    )  # fmt: skip
    assert result.verdict is Verdict.SUPPORTED and result.constant


# ---- layers that lack a sublayer ----


@pytest.mark.parametrize("where", ["post-ln", "pre-ln"])
@pytest.mark.parametrize("closure", ["unit-residual", "complete"])
def test_each_kind_has_what_it_has_in_layers_that_are_alike_at_the_same_S(where, closure):
    def rule(layer):
        both = {"placement": where, "closure": closure, "stack": "encoder-decoder"}
        return texts(solve_rule(Selection("adamw", layer=layer, **both)))

    mixed = rule("attention,1/4*cross,1/4*ffn,1/2*ffn-swiglu")
    for kind, layer in (("ffn", "attention,cross,ffn"), ("ffn-swiglu", "cross,ffn-swiglu")):
        count = 1 + layer.count(",")
        ours = mixed.entry("decoder", kind).at(N=8, M=12 * count)
        assert ours == pytest.approx(rule(layer).entry("decoder", kind).at(N=8, M=24))


def test_a_rule_of_layers_that_differ_is_proved_and_another_count_is_refuted(monkeypatch, afresh):
    select = {"optimizer": "adamw", "placement": "pre-ln", "closure": "complete", "layer": SHARES}
    both = "attention,ffn-swiglu;attention,1/4*cross,1/4*ffn,3/4*ffn-swiglu"
    assert derive(Selection(**select)).verdict is Verdict.PROVED
    stacked = derive(Selection("adamw", stack="encoder-decoder", layer=both))
    assert stacked.verdict is Verdict.PROVED
    monkeypatch.setattr(
        Part, "sublayers_per_layer", property(lambda part: Fraction(len(part.layer)))
    )
    afresh()
    assert derive(Selection(**select)).verdict is Verdict.REFUTED
