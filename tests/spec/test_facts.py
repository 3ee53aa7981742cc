"""Facts of a value live with the value: read off its formula, once."""

import pytest

from deepnet_theory.spec.placement import Placement, placements
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.sublayer import sublayers


def test_cross_attention_alone_reads_the_memory():
    assert {name for name, s in sublayers().items() if s.reads_memory} == {"cross"}


@pytest.mark.parametrize(
    ("layer", "crossings"), [("attention,cross,ffn", 1), ("cross,cross", 2), ("attention,ffn", 0)]
)
def test_the_sublayers_of_a_layer_that_read_the_memory_are_counted(layer, crossings):
    encoder, decoder = stack("encoder-decoder", layer).parts
    assert (encoder.crossings, decoder.crossings) == (0, crossings)


@pytest.mark.parametrize(
    ("equation", "encloses"),
    [
        ("norm(x + branch(x))", True),
        ("x + norm(branch(x))", False),
        ("x + branch(norm(x))", False),
        ("alpha*norm(x + branch(x))", False),
    ],
)
def test_a_norm_encloses_the_sum_where_it_is_the_outermost(equation, encloses):
    assert Placement("odd", equation, False).normalises_sum is encloses


def test_post_ln_alone_of_the_built_in_placements_normalises_the_sum():
    assert {name for name, p in placements().items() if p.normalises_sum} == {"post-ln"}
