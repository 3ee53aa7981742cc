"""A selection's placements, kind by kind."""

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
