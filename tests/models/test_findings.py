"""A difference in words: when it is light, which mistake it looks like, which layers it is of."""

import math
from types import SimpleNamespace

import pytest

from deepnet_theory.definitions.reading import Matrix
from deepnet_theory.definitions.subject import Difference
from deepnet_theory.models.effect import Ratio
from deepnet_theory.models.findings import FAR, _why_gain, as_made, in_layers, log

D = 32  # fan-in and fan-out: Xavier's standard deviation is 1/√D


def matrix(gain=1.0, role="value", error=0.0, rows=(0, D), name="qkv"):
    size = gain / math.sqrt(D)
    return Matrix(name, role, 0, (rows,), D, rows[1] - rows[0], entries=size, spread=error * size)


def why(found, wanted, *, role="value", error=0.0, others=(), beta=0.5, **matrix_):
    m = matrix(found, role, error, **matrix_)
    s = SimpleNamespace(kind="attention", matrices=(m, *others), scores=1.0)
    rule = SimpleNamespace(gains={"query": 1.0, "key": 1.0, "value": beta, "output": beta})
    return _why_gain(s, rule, Difference(0, role, found / wanted, found, wanted, m), m)


def test_a_step_within_a_twentieth_of_the_fixed_ones_in_every_draw_is_the_same():
    for low, high, same in ((0.96, 1.04, True), (0.94, 1.0, False), (1.0, 1.06, False)):
        assert Ratio(1.0, low, high).is_one is same


def test_each_mistake_has_its_words():
    assert why(1.0, 0.5) == "; it is not scaled"
    assert why(0.5, 1.0, role="query") == "; it is scaled like value and output, and takes gain 1"
    assert why(2.0, 0.5) == "; the gain is upside down"
    assert why(math.sqrt(1 / 3), 0.2) == "; it is as torch makes a Linear"
    packed = [matrix(rows=(D, 2 * D)), matrix(rows=(2 * D, 3 * D))]
    as_packed = math.sqrt(2 / (4 * D)) * math.sqrt(D)  # of the fans of all three
    of_packed = "it is drawn with the fans of the packed matrix"
    assert why(as_packed * 0.4, 0.4, others=packed) == f"; {of_packed}"
    found = why(as_packed * 0.5, 1.0, role="key", others=packed)
    assert found == f"; {of_packed}, scaled like value and output, and takes gain 1"
    elsewhere = "; the gain is on another standard deviation than Xavier's"
    assert why(0.02 * math.sqrt(D) * 0.3, 0.3) == elsewhere
    assert why(math.sqrt(2) * 0.3, 0.3) == elsewhere  # He's
    assert why(0.77, 0.3) == ""


def test_a_mistake_is_told_within_three_errors_of_the_entries():
    for off, told in ((0.145, True), (0.2, False)):
        assert bool(why(1 + off, 0.5, error=0.05)) is told
        m = matrix(math.sqrt(1 / 3), error=0.05)
        odd = matrix(math.sqrt(1 / 3) * (1 + off), error=0.05)
        assert as_made(m) and as_made(odd) is told


def test_no_ratio_is_farther_off_than_any():
    assert log(0.0) == -FAR and log(math.inf) == FAR and log(1.0) == 0
    assert log(math.e) == pytest.approx(1)


def test_layers_are_said_in_words():
    assert in_layers([0, 1, 2], 3) == "all 3 layers" and in_layers([0], 1) == "layer 0"
    assert in_layers([1, 2, 3, 5, 7, 8], 9) == "layers 1-3, 5, 7, 8"
