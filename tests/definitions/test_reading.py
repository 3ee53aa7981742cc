"""How a reading differs from what is expected: beyond chance, and in what."""

import math
from dataclasses import replace

import pytest

from deepnet_theory.definitions.reading import FoundMatrix, FoundNorm, FoundSublayer, Reading
from deepnet_theory.definitions.subject import Wanted, WantedSublayer, differences, gain, norms_of


def matrix(role, gain=1.0, error=0.0):
    m = FoundMatrix(f"{role}.weight", role, 0, ((0, 32),), 32, 32)
    return replace(m, entries=gain * m.xavier, spread=error * m.xavier)


def found(*matrices, where="input", stream=1.0, alpha=1.0, gains=None, **asked):
    """How one feed-forward sublayer differs from a pre-LN rule."""
    norms = (FoundNorm(where, True, "norm.weight", "norm.bias", 1.0),)
    matrices = matrices or (matrix("fc1"), matrix("fc2"))
    s = FoundSublayer("decoder", 0, "ffn", 0, stream, 1.0, norms, matrices)
    row = WantedSublayer(frozenset({"input"}), alpha, gains or {}, **asked)
    reading, wanted = Reading((s,), (), {"decoder": 1.0}), Wanted("rule", "", "pre-ln", (row,))
    return {(d.item, round(d.ratio, 3)) for d in differences(reading, wanted)}


def test_a_reading_differs_in_norms_alpha_and_gains_beyond_chance():
    assert found() == set()
    assert found(where="sum") == {("norms", 1.0)}
    assert found(stream=3.0, alpha=2.0) == {("alpha", 1.5)}
    assert found(gains={"fc1": 2.0}) == {("fc1", 0.5)}
    assert found(gains={"fc1": 0.0}) == {("fc1", math.inf)}
    noisy = matrix("fc1", 1.2, error=0.1)
    assert found(noisy) == set()  # two errors
    assert found(noisy, gains={"fc1": 0.9}) == {("fc1", 1.333)}  # three
    assert found(matrix("unknown", 9.0)) == set()


def test_a_gain_has_an_interval_and_may_be_of_another_deviation():
    size, low, high = gain(matrix("fc1", 0.5, error=0.1))
    assert (size, low, high) == pytest.approx((0.5, 0.304, 0.696), abs=1e-3)
    row = WantedSublayer(frozenset(), 1.0, {"fc1": 3.0}, std=0.02)
    m = matrix("fc1")
    assert row.gain(m) == pytest.approx(0.06 / m.xavier)
    assert row.gain(matrix("fc2")) == pytest.approx(0.02 / m.xavier)
    assert m.xavier == math.sqrt(2 / 64)


def test_norms_within_a_branch_are_no_part_of_its_equation():
    norms = tuple(FoundNorm(w, True, w, None, 1.0) for w in ("input", "inside", "scores", "within"))
    s = FoundSublayer("decoder", 0, "attention", 0, 1.0, 1.0, norms, ())
    assert s.around == {"input"} and s.placed_norms == norms[:1]
    assert s.ruled_norms == (*norms[:2], norms[3]) and norms_of(s) == {"input", "inside"}
    assert norms_of(replace(s, norms=norms[3:])) == {"inside"}


def test_a_block_of_a_parameter_is_written_as_in_code():
    block = replace(matrix("fc1"), whole=False, axis=1)
    assert (block.where, block.rows) == ("fc1.weight[:, 0:32]", [0, 32])
    several = replace(block, axis=0, outputs=((0, 4), (8, 12)))
    assert several.where == "fc1.weight[0:4, … 2 blocks]" and several.rows == [[0, 4], [8, 12]]
