"""The rule by the algebra of sizes: the published ones, and the same as the proof's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import table, texts
from deepnet_theory.spec.closure import closures
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import optimizers
from deepnet_theory.spec.placement import placements
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.rule.problem import solve_rule as proved_rule

# Su's table, DeepNet's constants and Su's instruction for pre-LN carried out
PUBLISHED = {
    ("sgd", "probe", "post-ln"): ("(2*N)**(1/4)", "(2*N)**(-1/4)"),
    ("adam", "probe", "post-ln"): ("(2*N)**(1/2)", "(2*N)**(-1/2)"),
    ("lamb", "probe", "post-ln"): ("1", "(2*N)**(-1/2)"),
    ("sgd", "lemma", "post-ln"): ("(2*N)**(1/4)", "(8*N)**(-1/4)"),
    ("sgd", "probe", "pre-ln"): ("1", "(2*N)**(-1/2)"),
    ("adam", "probe", "pre-ln"): ("1", "1/(2*N)"),
    ("lamb", "probe", "pre-ln"): ("1", "(2*N)**(-1/2)"),
}


@pytest.mark.parametrize(("select", "rule"), PUBLISHED.items(), ids=lambda v: " ".join(v))
def test_published_rules(select: tuple[str, str, str], rule: tuple[str, str]) -> None:
    optimizer, method, placement = select
    selection = Selection(optimizer=optimizer, method=method, placement=placement)
    (entry,) = texts(solve_rule(selection)).entries
    assert (entry.alpha, entry.beta) == rule


def test_deepnets_encoder_and_decoder() -> None:
    rule = texts(solve_rule(Selection(optimizer="sgd", method="lemma", stack="encoder-decoder")))
    encoder, decoder = rule.entries
    assert (decoder.alpha, decoder.beta) == ("(3*M)**(1/4)", "(12*M)**(-1/4)")
    alpha, beta = encoder.at(N=1, M=1)
    assert (round(alpha, 2), round(beta, 2)) == (0.81, 0.87)
    assert encoder.alpha == "(N**4*M/27)**(1/16)"


UPDATES = (
    "-eta*norm(theta)**2*sign(g)",
    "-eta*sign(g)*abs(g)**(1/3)",
    "-eta*g*theta**2",
    "-eta*g/norm(g)**2",
    "eta*g",
)
selections = st.builds(
    dict,
    by=st.one_of(
        st.sampled_from(sorted(optimizers())).map(lambda name: {"optimizer": name}),
        st.sampled_from(UPDATES).map(lambda update: {"update": update}),
    ),
    placement=st.sampled_from(sorted(placements())),
    closure=st.sampled_from([None, *closures()]),
    method=st.sampled_from(["probe", "lemma"]),
    on=st.sampled_from(
        [
            {"stack": "encoder"},
            {"stack": "decoder", "layer": "attention,ffn:swiglu"},
            {"layer": "ffn:swiglu"},
            {"stack": "encoder-decoder", "amplification": "independent"},
            {"stack": "encoder-decoder", "layer": "attention,cross,ffn:swiglu"},
        ]
    ),
)


@settings(max_examples=40, deadline=None)
@given(selections)
def test_it_is_the_rule_that_the_steps_prove(drawn: dict) -> None:
    selection = Selection(**drawn.pop("by"), **drawn.pop("on"), **drawn)
    try:
        proved = proved_rule(selection)
    except Refusal:
        with pytest.raises(Refusal):
            solve_rule(selection)
        return
    sized = texts(solve_rule(selection))
    for ours, theirs in zip(sized.entries, proved.entries, strict=True):
        assert (ours.part, ours.sublayer) == (theirs.part, theirs.sublayer)
        at = {"N": 7, "M": 5}
        assert ours.at(**at) == pytest.approx(theirs.at(**at), rel=1e-12)
        assert ours.rate_at(**at) == pytest.approx(theirs.rate_at(**at), rel=1e-12)


def test_complete_keeps_every_order() -> None:
    for name in optimizers():
        for placement in placements():
            of = table(Selection(optimizer=name, placement=placement, closure="complete"))
            assert of.state == "stable", (name, placement)
            assert all(not row.rho.symbols for row in of.sublayers)


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ({"update": "-eta*g/norm(g)**2", "closure": "symmetric"}, "use the closure"),
        ({"optimizer": "adam", "placement": "pre-ln", "closure": "symmetric"}, "no knob"),
        ({"optimizer": "sgd", "stack": "encoder-decoder", "closure": "learning-rate"}, "at once"),
        ({"optimizer": "sgd", "stack": "encoder-decoder", "layer": "attention,ffn"}, "cross"),
        ({"optimizer": "adam", "closure": "learning-rate", "placement": "pre-ln"}, "shrink by N"),
    ],
)
def test_a_refusal_says_what_is_missing(select: dict, says: str) -> None:
    with pytest.raises(Refusal, match=says):
        solve_rule(Selection(**select))
