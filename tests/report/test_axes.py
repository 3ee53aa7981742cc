"""Ticks of an axis: round, inside, told apart by their labels, and there on any axis."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deepnet_theory.report.svg import levels, tick_label, ticks

RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
FLAT = str.maketrans(RAISED, "-0123456789")


def read(label):
    """The number that a label stands for."""
    if label[-1] not in RAISED:
        return float(label)
    mantissa, _, power = label.rpartition("10")
    return float(f"{mantissa.rstrip('·') or 1}e{power.translate(FLAT)}")


@given(st.floats(-290, 280), st.floats(0.02, 20))
@example(0.477, 0.12)
@example(-4.93, 0.1)
def test_any_positive_range_gets_ticks(decade, decades):
    low, high = 10**decade, 10 ** (decade + decades)
    at = ticks(low, high)
    assert 2 <= len(at) <= 9
    assert all(low <= v <= high for v in at)
    assert all(a < b for a, b in pairwise(at))
    assert all(float(f"{v:.4e}") == v for v in at)
    assert [read(tick_label(v)) for v in at] == at


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e15))
@example(-6e-290, 0.4)
def test_any_range_gets_levels(low, length):
    at = levels(low, low + length)
    assert 3 <= len(at) <= 8
    assert all(low < v <= low + length for v in at)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((1, 299), [1, 2, 5, 10, 20, 50, 100, 200]),
        ((1, 300), [1, 10, 100]),
        ((0.1, 1e7), [0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7]),
        ((0.1, 1e8), [0.1, 10, 1e3, 1e5, 1e7]),
        ((1.5, 2.5), [1.6, 1.8, 2, 2.2, 2.4]),
        ((7, 7), [7]),
    ],
)
def test_ticks_are_ones_twos_and_fives(ends, expected):
    assert ticks(*ends) == expected
    assert levels(0, 10) == [2, 4, 6, 8, 10]
    assert levels(0, 8) == [1, 2, 3, 4, 5, 6, 7, 8]
