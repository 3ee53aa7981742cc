"""Exponents and premises: their intervals, and verdicts that can be wrong."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.measurement import Predictions, prediction
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.judging import judge_assumption, judge_exponent, plan_exponents
from deepnet_theory.laboratory.statistics import (
    TOLERANCE,
    Interval,
    fit_exponent,
    judge,
    positive_interval,
    slopes,
    t_interval,
)

REFUTED, UNDECIDED, SUPPORTED = Verdict.REFUTED, Verdict.UNDECIDED, Verdict.SUPPORTED
DEPTHS = (8, 16, 32, 64)


def powers(exponent, depths=DEPTHS, noise=0.0, size=1.0, paired=0.2, seed=0):
    """A power of the depth for eight seeds, whose sizes scatter by more than their slopes."""
    rng = np.random.default_rng(seed)
    each = size * np.exp(paired * rng.standard_normal((8, 1)))
    jitter = np.exp(noise * rng.standard_normal((8, len(depths))))
    return each * np.asarray(depths, dtype=float) ** exponent * jitter


# ---- intervals and fits ----


def test_slopes_and_interval_are_scipys_and_cover():
    x, y = np.log(np.asarray(DEPTHS, dtype=float)), np.log(powers(0.3, noise=0.1))
    ours = slopes(x, y)
    np.testing.assert_allclose(ours, [stats.linregress(x, row).slope for row in y], rtol=1e-12)
    found, theirs = t_interval(ours), stats.ttest_1samp(ours, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(theirs))
    assert t_interval([1.0]).high == math.inf
    rng = np.random.default_rng(0)
    narrow = fit_exponent(DEPTHS, powers(0.3, noise=0.01, paired=1.0)).interval
    assert narrow.high - narrow.low < 0.06  # paired: noise between seeds would swamp the slope
    draws, mean = np.exp(0.3 * rng.standard_normal((2000, 8))), math.exp(0.3**2 / 2)
    assert 0.935 < sum(0.0 in t_interval(row) for row in np.log(draws)) / 2000 < 0.965
    assert 0.93 < sum(mean in positive_interval(row) for row in draws) / 2000 < 0.97


PAIRS = st.tuples(st.sampled_from(DEPTHS), st.sampled_from((1, 4, 16)))


@given(st.lists(PAIRS, min_size=2, unique=True), st.floats(-1, 1))
def test_the_other_depth_is_held_fixed_by_groups_of_two_or_more(pairs, exponent):
    ns, ms = zip(*pairs, strict=True)
    grouped = [n for n, m in pairs if ms.count(m) > 1]
    assume(grouped)
    values = np.array([[n**exponent * m**-0.25 for n, m in pairs]] * 3)
    fit = fit_exponent(ns, values, groups=ms)
    assert fit.interval.estimate == pytest.approx(exponent, abs=1e-9)
    assert fit.fitted_from == min(grouped)


def test_the_fit_begins_where_the_local_slope_has_settled():
    depths = np.array([2, 4, 8, 16, 32, 64, 128, 256])
    bent = (depths**0.5 * (1 + 8 / depths**1.5))[None, :] * powers(0.0, depths, noise=0.003)
    fit = fit_exponent(depths, bent)
    assert fit.fitted_from > 2 and abs(fit.interval.estimate - 0.5) < 0.03
    straight = slopes(np.log(depths), np.log(bent)).mean()
    assert abs(straight - 0.5) > 0.1  # what the whole range would have said


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=9))
def test_the_interval_of_a_positive_quantity_holds_no_negative_one(sizes):
    found, student = positive_interval(sizes), t_interval(sizes)
    assert found.estimate == student.estimate and found.high >= found.estimate
    assert 0 <= found.low <= found.estimate
    if found.high < math.inf:
        assert found.low * found.high == pytest.approx(found.estimate**2)
    few = (np.asarray(sizes) - found.estimate) * 1e-6 + 1e3  # a small spread: it is Student's
    assert positive_interval(few).low == pytest.approx(t_interval(few).low, rel=1e-9)


def test_of_zeros_of_one_seed_and_of_nan_the_interval_is_plain():
    assert positive_interval([0.0, 0.0, 0.0]) == Interval(0.0, 0.0, 0.0)
    assert positive_interval([3.0]) == Interval(3.0, 0.0, math.inf)
    assert math.isnan(positive_interval([1.0, math.nan]).estimate)


# ---- verdicts on exponents ----


HALVES = st.integers(-6, 6).map(lambda n: n * TOLERANCE / 2)  # so that ends meet often


@given(HALVES, HALVES, HALVES, st.lists(HALVES, max_size=3))
def test_a_right_exponent_is_supported_where_no_rival_is_in_the_interval(a, b, predicted, rivals):
    low, high, least, most = min(a, b), max(a, b), predicted - TOLERANCE, predicted + TOLERANCE
    verdict, because = judge(Interval(a, low, high), predicted, [(f"of {e}", e) for e in rivals])
    others = [e for e in rivals if e != predicted]
    held = [e for e in others if low <= e <= high]
    inside, apart = least <= low and high <= most, high < least or low > most
    right = inside and not held
    assert verdict is (REFUTED if apart else SUPPORTED if right else UNDECIDED)
    assert (f"equivalent to it: of {predicted}" in because) == (predicted in rivals)
    if inside and others:
        told = "does not exclude the rival" if held else "and excludes the nearest rival,"
        away = min(abs(e - predicted) for e in held or others)
        assert any(f"{told} of {e} " in because for e in others if abs(e - predicted) == away)
    for nothing in (Interval(math.nan, -math.inf, math.inf), Interval(a, -math.inf, math.inf)):
        assert judge(nothing, predicted)[0] is UNDECIDED
    assert judge(Interval(a, low, high), None)[0] is UNDECIDED


NOISE = np.random.default_rng(0).normal(0, 1e-4, (6, len(DEPTHS)))
LINE = np.exp(np.log(DEPTHS) / 2 + NOISE)  # exponent 1/2
LEADS = 1.02  # the power deep down
BENT = np.exp(np.log(200 + np.array(DEPTHS)) + NOISE)  # on its way to exponent 1
WIGGLE = [[0.01], [-0.01]] * 3 * np.arange(4)
BLURRED = BENT * np.exp(20 * WIGGLE)  # as expected, give or take 0.3
RIVAL = (("near", Fraction(100_001, 100_000)),)


def judged(
    values=LINE, exponent=0.5, wanted=4, depths=DEPTHS, expected=None, arrival=None, rivals=(),
):  # fmt: skip
    asked = prediction("N", "all", Fraction(exponent), rivals)
    places = [{"N": n} for n in depths]
    return judge_exponent(asked, places, values, wanted, expected, lambda: arrival)


def test_a_line_of_the_predicted_exponent_is_supported_and_of_another_refuted():
    right = judged()
    assert right.verdict is SUPPORTED and math.isclose(right.estimate, 0.5, abs_tol=1e-3)
    assert right.low < right.estimate < right.high and right.fitted_from == DEPTHS[0]
    wrong = judged(exponent=0.75)
    assert wrong.verdict is REFUTED and not wrong.constant
    unsure = judged(values=np.exp(np.log(DEPTHS) / 2 + 1500 * NOISE))
    assert unsure.verdict is UNDECIDED


NOT_FINITE = {"values": np.vstack([LINE, np.full(4, np.nan)])}
LESS = [  # what is missing, what is said, and whether a wrong exponent is refuted all the same
    (NOT_FINITE, "1 of 7 seeds were not finite", True),
    ({"wanted": 5}, "only 4 of 5 depths were measured", False),
    ({"values": LINE[:, :1], "depths": DEPTHS[:1]}, "too few depths", False),
    ({"values": np.zeros((6, 4))}, "leaves 0 where it is", False),
]


@pytest.mark.parametrize(("less", "because", "refuted"), LESS)
def test_what_is_missing_leaves_a_right_exponent_undecided_and_saves_no_wrong_one(
    less, because, refuted
):
    found = judged(**less)
    assert found.verdict is UNDECIDED and because in found.because
    assert (judged(exponent=0.75, **less).verdict is REFUTED) == refuted
    if "depths" in less:
        assert all(map(math.isnan, (found.estimate, found.low, found.high)))


@pytest.mark.parametrize(
    ("expected", "arrival", "rivals", "verdict", "because"),
    [
        # a sum of powers whose larger one comes later: the slope here is part of the prediction
        (BENT * np.exp(0.001 * np.arange(4)), LEADS, (), SUPPORTED, "lead to +1.02"),
        (BENT * [1, 1.1, 1.2, 1.3], LEADS, (), REFUTED, "off by"),  # another slope
        (BENT, 0.5, (), REFUTED, "lead to +0.50"),  # another power in the end
        (BENT, None, (), REFUTED, "do not reach deeper"),
        (BLURRED, 0.5, (), REFUTED, "lead to +0.50"),
        (BENT * np.exp(WIGGLE), LEADS, RIVAL, REFUTED, "does not exclude the rival near"),
        (BLURRED, LEADS, (), UNDECIDED, "too shallow to show +1"),
    ],
)
def test_a_slope_that_is_predicted_here_is_supported_where_it_arrives_at_the_exponent(
    expected, arrival, rivals, verdict, because
):
    asked = {"exponent": 1, "expected": expected, "arrival": arrival, "rivals": rivals}
    found = judged(BENT, **asked)
    assert found.verdict is verdict and because in found.because
    assert found.here is not None and found.here < 0.95
    assert judged(BENT, **asked, wanted=5).verdict is UNDECIDED


def test_an_exponent_needs_two_depths_that_differ_in_nothing_else():
    pair = Selection(optimizer="adam", stack="encoder-decoder")
    asked = Predictions(tuple(prediction(symbol, "all", Fraction(0)) for symbol in "NM"))

    def plans(*numbers):
        return plan_exponents(pair, asked, [{"N": n, "M": m} for n, m in numbers])

    assert [p.variable for p in plans((8, 6), (16, 6))] == ["N"]
    assert [p.variable for p in plans((8, 6), (16, 6), (8, 12))] == ["N", "M"]
    for numbers in ([(8, 4), (16, 8)], [(8, 4), (16, 16)], [(8, 4)]):
        with pytest.raises(InputError, match=r"differ in N or in M alone are needed$"):
            plans(*numbers)
    with pytest.raises(InputError, match=r"differ in N alone are needed$"):
        plan_exponents(Selection(optimizer="adam"), Predictions(()), [{"N": 8}])


# ---- premises ----


def scattered(exponent, size=1.0, noise=0.01):
    return powers(exponent, noise=noise, size=size, paired=0.0)


@pytest.mark.parametrize(
    ("criteria", "supported", "refuted", "undecided"),
    [
        ({}, scattered(0.0), scattered(0.5), scattered(0.0, noise=0.5)),
        ({"slope_at_most": 0.0}, scattered(-2.0), scattered(0.3), scattered(0.05)),
        ({"at_least": 0.9}, scattered(0.0, 0.99), scattered(-0.1), scattered(0.0, 0.9)),
    ],
)
def test_the_criterion_that_an_assumption_gives_is_judged(criteria, supported, refuted, undecided):
    asked = Assumption("a", "statement", measurement="m", **criteria)
    measured = supported, refuted, undecided, scattered(math.nan)
    found = [judge_assumption(asked, [{"N": n} for n in DEPTHS], values) for values in measured]
    assert [one.verdict for one in found] == [SUPPORTED, REFUTED, UNDECIDED, UNDECIDED]
    assert all(one.because and "\n" not in one.because for one in found)
    if "at_least" in criteria:
        assert found[1].estimate == pytest.approx(min(refuted.mean(0)))
