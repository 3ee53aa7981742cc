"""A part that all tokens share: the residual equation, its limits, and what feeds it.

The claim ``common-mode`` holds the equation against built stacks with a planted direction.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.sizes.common_mode import (
    carried,
    divisor,
    limit,
    own_part,
    rise,
    summed_rate,
)
from deepnet_theory.spec.placement import placement, placements

ALL = pytest.mark.parametrize("name", placements())


@ALL
def test_a_deep_stack_reaches_the_limit(name: str) -> None:
    where = placement(name)
    for weight in (0.5, 2.0, 5.0):
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
    assert [divisor(placement(n)) for n in ("post-ln", "pre-ln")] == ["cosh(R)", "sqrt(1 + R**2)"]


@given(st.floats(0.01, 8), st.floats(0.01, 8))
def test_more_in_common_leaves_less(one: float, other: float) -> None:
    low, high = sorted((one, other))
    for where in placements().values():
        assert limit(where, high) <= limit(where, low) <= 1
        assert own_part(where, 12, high) <= own_part(where, 12, low) + 1e-12


def test_r_rises_by_its_equation_and_as_the_width() -> None:
    first, growth = rise(64, 256)
    s = summed_rate(64, 256)
    assert first * (math.exp(growth * s) - 1) / growth == pytest.approx(1)
    assert s == pytest.approx(0.0199, abs=1e-4)
    assert summed_rate(128, 512) == pytest.approx(s / 2)
    assert summed_rate(64, 256, branches=2) == pytest.approx(s / 2, rel=0.2)


def test_the_first_step_of_the_rise_is_that_of_explicit_matrices() -> None:
    """One aligned step of fc2 and of output on a stream without a common part: A·η."""
    torch.manual_seed(0)
    width, hidden, eta = 256, 1024, 1e-3
    x = torch.randn(4000, width)
    read = (x @ (torch.randn(width, hidden) * math.sqrt(2 / (width + hidden)))).relu().mean(0)
    moved = eta * torch.outer(read.sign(), torch.randn(width).sign())
    weight = float((read @ moved).norm()) / math.sqrt(width)
    assert weight / 2 == pytest.approx(rise(width, hidden)[0] * eta, rel=0.02)


def test_values_and_first_maps_feed_it_as_much_as_is_said() -> None:
    """γ from explicit matrices whose stream has a common part a m̂, signs of an aligned step."""
    torch.manual_seed(0)
    width, hidden, a, eta = 256, 1024, 0.3, 1e-3
    direction, back = torch.randn(width).sign(), torch.randn(width).sign()  # entries of size 1
    value, output = (torch.randn(width, width) / math.sqrt(width) for _ in range(2))
    fc1 = torch.randn(width, hidden) * math.sqrt(2 / (width + hidden))
    fc2 = torch.randn(hidden, width) * math.sqrt(2 / (width + hidden))
    x = a * direction + math.sqrt(1 - a**2) * torch.randn(2000, width)
    mean = a * direction

    def along(y: torch.Tensor) -> float:
        return float(y @ back) / width

    read = mean @ value
    fed = along(read @ torch.outer(read.sign(), back)) * eta  # output
    fed += along(mean @ torch.outer(direction, (output @ back).sign()) @ output) * eta  # value
    step = eta * torch.outer(direction, (fc2 @ back).sign())
    moved = (x @ (fc1 + step)).relu().mean(0) - (x @ fc1).relu().mean(0)
    fed += along(moved @ fc2)  # fc1
    # γR with R = 2a
    assert fed / 2 == pytest.approx(rise(width, hidden)[1] * 2 * a * eta, rel=0.05)


def test_a_head_as_width_theory_asks_for_never_carries_the_frequencies() -> None:
    assert carried(64, 0.02) == pytest.approx(1.02, abs=0.01)
    assert {round(carried(d, 1 / d), 3) for d in (64, 1024, 2**20)} == {0.798}
