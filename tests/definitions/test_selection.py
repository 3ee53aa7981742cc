"""A selection's layers and residual equations: read as they are written, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory.definitions.discovery import names
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import stack
from deepnet_theory.definitions.sublayer import sublayer


@pytest.mark.timeout(120)
def test_a_sum_may_have_many_branches():
    layer = "+".join(["attention"] * 24)
    many = dt.derive(optimizer="adam", layer=layer, closure="published")
    assert many.verdict is Verdict.PROVED and many.rule.entries[0].alpha == "(24*N)**(1/2)"


KINDS = st.sampled_from([name for name in names("sublayers") if name != "cross"])


@given(st.lists(st.lists(KINDS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_a_layer_reads_back_as_it_is_described(sums):
    (part,) = stack("encoder", ",".join(map("+".join, sums))).parts
    assert part.sums == tuple(map(len, sums)) and part.crossings == 0
    (again,) = stack("encoder", part.described).parts
    assert again == part


def test_a_layer_says_how_many_of_how_many_experts():
    own = sublayer("ffn:swiglu@2/8")
    assert (own.name, own.chosen, own.experts) == ("ffn-swiglu@2/8", 2, 8)
    assert [m.name for m in own.unscaled] == ["router"]
    assert own.last_map == sublayer("ffn-swiglu").last_map
    assert sublayer("ffn@8/256").last_map == ("fc2", "fc2_bias")
