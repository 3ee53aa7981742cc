"""Depth lists: what is read, and what is refused with one sentence."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.numeric.depths import default_depths, depth_key, parse_depths
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.stack import stack

ENCODER, PAIR = stack("encoder"), stack("encoder-decoder")


def test_lists_and_sequences_agree():
    expected = ({"N": 8}, {"N": 16}, {"N": 32})
    assert parse_depths("8,16,32", ENCODER) == expected
    assert parse_depths([32, 8, 16, 8], ENCODER) == expected
    assert parse_depths([{"N": 8}, (16,), "32"], ENCODER) == expected
    assert parse_depths("4", stack("decoder")) == ({"M": 4},)


@given(st.integers(1, 500), st.integers(2, 500))
def test_a_range_is_geometric(first, ratio):
    found = [d["N"] for d in parse_depths(f"{first}:{first * ratio}", ENCODER)]
    assert (found[0], found[-1]) == (first, first * ratio)
    steps = [math.log2(b / a) for a, b in pairwise(found) if a >= 16]
    assert all(0.4 < s < 1.6 for s in steps)


def test_pairs():
    assert parse_depths("8x6, 16x6", PAIR) == ({"N": 8, "M": 6}, {"N": 16, "M": 6})
    assert parse_depths([(8, 6)], PAIR) == ({"N": 8, "M": 6},)
    assert depth_key({"N": 8, "M": 6}) == "8x6"
    for one in (ENCODER, stack("decoder"), PAIR):
        assert len(parse_depths(default_depths(one), one)) >= 5


BAD = ["", " ", "0", "8,0", "-8", "8,,16", "8.5", "nan", "inf", "8:", ":8", "16:8", "8:8", "1e3",
       "x", "8x6", "1000001", "9" * 400, "٨", [], [8.0], [True], [math.nan], [None], None, 8,
       [(8, 6)]]  # fmt: skip
BAD_PAIRS = ["8", "8x", "x6", "8x6x4", "8x0", "8:16", [{"N": 8}], [8]]


@pytest.mark.parametrize(
    ("bad", "of"), [*((bad, ENCODER) for bad in BAD), *((bad, PAIR) for bad in BAD_PAIRS)]
)
def test_refused_with_one_sentence(bad, of):
    with pytest.raises(InputError, match="8x6,16x6" if of is PAIR else None) as caught:
        parse_depths(bad, of)
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
