"""A part that all tokens share: the residual equation and its limits.

The claim ``common-mode`` holds the equation against built stacks with a planted direction.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.definitions.placement import placement
from paper_checks.common.common_mode import carried, limit, own_part

# one on the sum, one on the branch's input, one on its output: a norm on the sum is all that counts
NAMES = ("post-ln", "pre-ln", "res-post-ln")


@pytest.mark.parametrize("name", NAMES)
def test_a_deep_stack_reaches_the_limit(name: str) -> None:
    where = placement(name)
    for weight in (0.5, 5.0):
        far, near = (own_part(where, s, weight) / limit(where, weight) - 1 for s in (100, 10_000))
        assert abs(near) < 2e-3, near
        assert abs(near) <= abs(far) + 1e-12
        # the other placement's law is not this one's
        wrong = math.hypot(1, weight) if where.normalises_sum else math.cosh(weight)
        assert abs(own_part(where, 10_000, weight) * wrong - 1) > 5e-3


def test_the_divided_part_at_five() -> None:
    post = [1 / own_part(placement("post-ln"), s, 5.0) for s in (16, 64, 1024)]
    assert post == pytest.approx([42.6, 63.2, 73.4], abs=0.1)
    assert 1 / own_part(placement("pre-ln"), 16, 5.0) == pytest.approx(math.sqrt(26))


@given(st.floats(0.01, 8), st.floats(0.01, 8))
def test_more_in_common_leaves_less(one: float, other: float) -> None:
    low, high = sorted((one, other))
    for where in map(placement, NAMES):
        assert limit(where, high) <= limit(where, low) <= 1
        assert own_part(where, 12, high) <= own_part(where, 12, low) + 1e-12


def test_a_head_as_width_theory_asks_for_never_carries_the_frequencies() -> None:
    assert carried(64, 0.02) == pytest.approx(1.02, abs=0.01)
    assert {round(carried(d, 1 / d), 3) for d in (64, 1024, 2**20)} == {0.798}
