"""Shares of ‖ΔF‖ and profiles along the stack."""

import pytest
from published_rules import SMALL, rule

from deepnet_theory.numeric.measuring.layerwise import QUANTITIES, measure_sublayers
from deepnet_theory.numeric.measuring.shares import KEYS, measure_shares
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection


@pytest.mark.parametrize("by", sorted(KEYS))
def test_shares_bound_the_whole_and_partition_it(adam, by):
    found = measure_shares(Case(adam, rule("adam"), {"N": 2}, SMALL), by)
    whole = found.pop("all").values
    assert found
    for k, value in enumerate(whole):
        total = sum(u.values[k] for u in found.values())
        assert value <= total * 1.02
        assert max(u.values[k] for u in found.values()) <= total


def test_shares_by_matrix_name_every_matrix(adam):
    found = measure_shares(Case(adam, rule("adam"), {"N": 1}, SMALL))
    assert set(found) == {
        "all", "attention query", "attention key", "attention value", "attention output",
        "ffn fc1", "ffn fc2",
    }  # fmt: skip
    # THEORY: queries and keys matter little for Adam's own rule
    assert max(found["attention query"].values) < min(found["attention value"].values)


def test_unknown_share(adam):
    with pytest.raises(InputError, match="matrix"):
        measure_shares(Case(adam, rule("adam"), {"N": 1}, SMALL), "colour")


def test_profile_has_every_sublayer_and_parameter():
    pair = Selection(optimizer="sgd", stack="encoder-decoder")
    own = own_rule(("encoder", "decoder"), "1", "1/2")
    rows = measure_sublayers(Case(pair, own, {"N": 2, "M": 3}, SMALL))
    for quantity in QUANTITIES:
        assert sum(r.quantity == quantity for r in rows) == 2 * 2 + 3 * 3
    gradients = [r for r in rows if r.quantity.startswith("gradient of ")]
    assert len(gradients) == 2 * (4 + 2) + 3 * (4 + 4 + 2)
    assert all(len(r.values) == 3 and min(r.values) >= 0 for r in gradients)
    assert [r.layer for r in rows if r.quantity == "gradient of fc1" and r.part == "decoder"] == [
        0, 1, 2,
    ]  # fmt: skip
