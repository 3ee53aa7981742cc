"""A selection's layers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory.definitions.discovery import names
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.selection import stack


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


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ("attention,ffn;attention,ffn", "says the layers of 2 parts, which 'decoder' lacks"),
        ("attention,ffn:post-ln", "ffn-post-ln"),
        ("attention,1/4*ffn", "1/4\\*ffn"),
        ("attention,cross", "nothing to attend with"),
    ],
)
def test_what_is_no_layer_of_the_stack_is_refused(layer, says):
    with pytest.raises(InputError, match=says):
        stack("decoder", layer)
