"""A selection's placements, kind by kind."""

import pytest

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.placement import placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import sublayer


def test_a_stack_ends_in_a_norm_as_its_last_sublayer_says():
    for layer, ends in (
        ("attention:post-ln,ffn:pre-ln", True), ("attention:pre-ln,ffn:post-ln", False),
    ):  # fmt: skip
        selection = Selection("adam", layer=layer)
        for kind in selection.the_stack.parts[0].layer:
            placed = selection.placed(kind)
            assert placed.final_norm is ends
            own = placement(kind.placement)
            assert (placed.norms, placed.equation) == (own.norms, own.equation)
            assert (placed is own) is (own.final_norm is ends)
    plain = Selection("adam", placement="sandwich-ln")
    assert plain.placed(sublayer("ffn")) is placement("sandwich-ln")


@pytest.mark.timeout(120)
def test_a_sum_may_have_many_branches():
    many = dt.derive(optimizer="adam", layer="+".join(["attention"] * 24))
    assert many.verdict is Verdict.PROVED and many.rule.entries[0].alpha == "(24*N)**(1/2)"
