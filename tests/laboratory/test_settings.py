"""Settings and depth lists: the first bad value is restated; processes that suit."""

import math
import os
import sys
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import deepnet_theory as dt
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.selection import stack
from deepnet_theory.laboratory.settings import (
    Settings,
    depth_key,
    fitting_processes,
    parse_depths,
    wanted_depths,
)


# what no command types: the others are sessions, tests/outputs/refused_work.txt
@pytest.mark.parametrize(
    ("field", "bad"), [("width", 64.0), ("width", True), ("seeds", None), ("ffn_ratio", math.inf)]
)
def test_bad_values_are_restated(field, bad):
    with pytest.raises(InputError) as caught:
        Settings(**{field: bad})
    assert str(bad) in str(caught.value)
    assert "\n" not in str(caught.value)


# 8 seeds of 32 tokens in width 64, 4 draws: 2^16 activations a layer
SETTINGS = Settings(width=64, tokens=32, seeds=8, batch=1, draws=4, device="cpu")


@pytest.mark.parametrize("threads", [1, 4, 12])
def test_long_work_fills_the_cores_and_short_work_is_done_here(monkeypatch, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert fitting_processes(None, [{"N": 2048}], SETTINGS) == 6
    assert fitting_processes(None, [{"N": 1024}, {"N": 512, "M": 511}], SETTINGS) == 1
    assert fitting_processes(3, [{"N": 8}], SETTINGS) == 3
    large = Settings(width=4096, heads=4, tokens=512, seeds=8, draws=4, device="cpu")
    assert fitting_processes(None, [{"N": 64}], large) == max(1, 6 // threads)


def test_a_measurement_starts_no_process_by_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "loky", None)  # pools are made of it
    assert dt.verify("adam", depths="1,2", width=4, heads=1, tokens=3, seeds=2, draws=1).points


ENCODER, PAIR = stack("encoder"), stack("encoder-decoder")


def test_lists_sequences_and_pairs_agree():
    expected = ({"N": 8}, {"N": 16}, {"N": 32})
    for same in ("8,16,32", [32, 8, 16, 8], [{"N": 8}, (16,), "32"]):
        assert parse_depths(same, ENCODER) == expected
    assert parse_depths("8x6, 16x6", PAIR) == ({"N": 8, "M": 6}, {"N": 16, "M": 6})
    assert parse_depths([(8, 6)], PAIR) == ({"N": 8, "M": 6},)
    assert depth_key({"N": 8, "M": 6}) == "8x6"
    for one in (ENCODER, stack("decoder"), PAIR):
        assert len(wanted_depths(None, one)) >= 5


@given(st.integers(1, 500), st.integers(2, 500))
def test_a_range_is_geometric(first, ratio):
    found = [d["N"] for d in parse_depths(f"{first}:{first * ratio}", ENCODER)]
    assert (found[0], found[-1]) == (first, first * ratio)
    steps = [math.log2(b / a) for a, b in pairwise(found) if a >= 16]
    assert all(0.4 < s < 1.6 for s in steps)


BAD = ["8,,16", "nan", "1e3", "9" * 400, "٨", [], [8.0], [True], [None], None, 8, [(8, 6)]]
BAD_PAIRS = ["x6", "8x6x4", "8x0", [{"N": 8}], [8]]


@pytest.mark.parametrize(
    ("bad", "of"), [*((bad, ENCODER) for bad in BAD), *((bad, PAIR) for bad in BAD_PAIRS)]
)
def test_refused_with_one_sentence(bad, of):
    with pytest.raises(InputError, match="8x6,16x6" if of is PAIR else None) as caught:
        parse_depths(bad, of)
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    if bad == []:
        assert str(caught.value).startswith("the depths [] cannot be read: it is empty;")
