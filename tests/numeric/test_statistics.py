"""Exponents, their intervals, and verdicts that can be wrong."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deepnet_theory.numeric.statistics import (
    Interval,
    fit_exponent,
    judge,
    positive_interval,
    slopes,
    t_interval,
    what_decides,
)
from deepnet_theory.spec.verdict import Verdict

DEPTHS = (8, 16, 32, 64, 128)


def powers(exponent, depths=DEPTHS, noise=0.0, seeds=8, paired=0.2, seed=0):
    rng = np.random.default_rng(seed)
    size = np.exp(paired * rng.standard_normal((seeds, 1)))
    jitter = np.exp(noise * rng.standard_normal((seeds, len(depths))))
    return size * np.asarray(depths, dtype=float) ** exponent * jitter


@given(st.floats(-2, 2), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_a_power_law_gives_its_exponent(exponent, seed):
    fit = fit_exponent(DEPTHS, powers(exponent, seed=seed))
    assert fit.interval.estimate == pytest.approx(exponent, abs=1e-9)
    assert fit.fitted_from == 8
    # paired: noise between seeds would swamp the slope
    fit = fit_exponent(DEPTHS, powers(exponent, noise=0.01, paired=1.0, seed=seed))
    assert fit.interval.high - fit.interval.low < 0.04


def test_slopes_and_interval_are_scipys():
    y = np.log(powers(0.3, noise=0.1))
    x = np.log(np.asarray(DEPTHS, dtype=float))
    ours = slopes(x, y)
    theirs = [stats.linregress(x, row).slope for row in y]
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    interval = t_interval(ours)
    reference = stats.ttest_1samp(ours, 0).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx(tuple(reference))


CROSS = [(8, 8), (16, 8), (32, 8), (64, 8), (8, 16), (8, 32), (8, 64)]


@pytest.mark.parametrize(
    "depths",
    [
        [(8, 4), (16, 4), (32, 4), (8, 16), (16, 16), (32, 16)],
        CROSS,
        [(16, 8), (32, 8), (64, 8), (128, 8), (8, 16), (8, 32), (8, 64)],  # N = 8 stands alone
        [(8, 1), (32, 1), (16, 2), (64, 2)],  # no group has the two least depths
        [(8, 1), (16, 1), (8, 2), (32, 2), (8, 3), (64, 3)],  # nor, without the least one, any two
    ],
)
def test_the_other_depth_is_held_fixed_by_groups_of_two_or_more(depths):
    values = np.array([[n**0.5 * m**-0.25 for n, m in depths]] * 3)
    ns, ms = zip(*depths, strict=True)
    fit = fit_exponent(ns, values, groups=ms)
    assert fit.interval.estimate == pytest.approx(0.5)
    assert fit.fitted_from == min(n for n, m in depths if ms.count(m) > 1)
    if len(depths) > 5 and 3 not in ms:
        assert fit_exponent(ms, values, groups=ns).interval.estimate == pytest.approx(-0.25)


def test_the_fit_begins_where_the_local_slope_has_settled():
    depths = np.array([2, 4, 8, 16, 32, 64, 128, 256])
    bent = (depths**0.5 * (1 + 8 / depths**1.5))[None, :] * powers(0.0, depths, noise=0.003)
    fit = fit_exponent(depths, bent)
    assert fit.fitted_from > 2
    assert abs(fit.interval.estimate - 0.5) < 0.03
    straight = slopes(np.log(depths), np.log(bent)).mean()
    assert abs(straight - 0.5) > 0.1  # what the whole range would have said


def test_seeds_that_are_not_finite_are_left_out():
    values = powers(0.25)
    values[3, 2] = math.nan
    fit = fit_exponent(DEPTHS, values)
    assert len(fit.per_seed) == 7
    assert fit.interval.estimate == pytest.approx(0.25)
    assert math.isnan(fit_exponent(DEPTHS, values * math.nan).interval.estimate)


def test_intervals_cover():
    rng = np.random.default_rng(0)
    hits_t = sum(0.0 in t_interval(rng.standard_normal(8)) for _ in range(2000))
    assert 0.935 < hits_t / 2000 < 0.965
    assert t_interval([1.0]).high == math.inf
    draws, mean = np.exp(0.3 * rng.standard_normal((2000, 8))), math.exp(0.3**2 / 2)
    assert 0.93 < sum(mean in positive_interval(row) for row in draws) / 2000 < 0.97


def test_the_interval_of_a_positive_quantity_holds_no_negative_one():
    sizes = [4.571, 5.424]  # of two seeds: Student's interval begins below 0
    assert t_interval(sizes).low < 0
    found = positive_interval(sizes)
    assert 0 < found.low < found.estimate < found.high
    assert found.estimate == t_interval(sizes).estimate
    assert found.low * found.high == pytest.approx(found.estimate**2)
    assert positive_interval([0.0, 0.0, 0.0]) == Interval(0.0, 0.0, 0.0)
    assert positive_interval([3.0]) == Interval(3.0, 0.0, math.inf)
    assert math.isnan(positive_interval([1.0, math.nan]).estimate)
    # where the spread is small it is Student's
    close = 1 + 1e-4 * np.random.default_rng(0).standard_normal(8)
    assert positive_interval(close).low == pytest.approx(t_interval(close).low, rel=1e-7)


@pytest.mark.parametrize(
    ("interval", "predicted", "rivals", "verdict"),
    [
        ((0.0, -0.01, 0.01), 0.0, [("other", 0.5)], Verdict.SUPPORTED),
        ((0.0, -0.01, 0.01), 0.5, [("other", 0.0)], Verdict.REFUTED),
        ((0.0, -0.1, 0.1), 0.0, [("other", 0.5)], Verdict.UNDECIDED),
        ((0.04, 0.01, 0.07), 0.0, [], Verdict.UNDECIDED),
        ((0.0, -0.04, 0.04), 0.0, [("close", 0.03)], Verdict.UNDECIDED),
        ((0.0, -0.04, 0.04), 0.0, [("same", 0.0)], Verdict.SUPPORTED),
        ((math.nan, -math.inf, math.inf), 0.0, [], Verdict.UNDECIDED),
        ((0.0, -math.inf, math.inf), 0.0, [], Verdict.UNDECIDED),
        ((0.0, -0.01, 0.01), None, [], Verdict.UNDECIDED),
    ],
)
def test_verdicts(interval, predicted, rivals, verdict):
    found, because = judge(Interval(*interval), predicted, rivals)
    assert found is verdict
    assert ("equivalent to it: same" in because) == (rivals == [("same", 0.0)])
    excluded = found is Verdict.SUPPORTED and rivals == [("other", 0.5)]
    assert ("excludes the nearest rival, other (+0.5)" in because) == excluded
    assert "\n" not in because


@pytest.mark.parametrize(
    ("mean", "edges", "seeds"),
    [(0.0, (-0.05, 0.05), 8), (0.03, (-0.05, 0.05), 6), (0.4, (0.05,), 3), (-0.1, (0.0,), 4)],
)
def test_the_seeds_that_are_advised_decide_four_times_of_five(mean, edges, seeds):
    rng, scatter = np.random.default_rng(0), 0.08
    drawn = rng.normal(size=seeds)
    first = t_interval(mean + scatter * (drawn - drawn.mean()) / drawn.std(ddof=1))
    advised = int(what_decides(first, *edges).split()[1])

    def deciding(count):
        found = [t_interval(rng.normal(mean, scatter, count)) for _ in range(1000)]
        clear = [all(not i.low <= edge <= i.high for edge in edges) for i in found]
        return np.mean(clear)

    assert deciding(advised) > 0.77
    assert deciding(max(2, round(0.6 * advised))) < 0.77, "no more seeds than are needed"


def test_what_seeds_cannot_decide_is_said():
    near = t_interval([0.0499, 0.0501, 0.03, 0.0702])
    assert what_decides(near, 0.05).startswith("more than 1024 seeds")
    assert "finer grid" in what_decides(t_interval([0.0, 0.01]).widened(0.1), -0.05, 0.05)
    assert "two different seeds" in what_decides(t_interval([0.1]), 0.05)
    assert what_decides(Interval(0.0, -1.0, 1.0), 0.05) == ""  # of samples that nobody counted
    assert what_decides(t_interval([0.0, 1.0])) == ""  # without a prediction nothing is asked


def test_an_interval_may_end_where_the_tolerance_does():
    assert Interval(0.5, 0.0, 1.0).within(0.0, 1.0) and not Interval(0.5, 0.0, 1.1).within(0.0, 1.0)
    assert not Interval(0.5, 0.0, 1.0).outside(1.0, 2.0) and Interval(0.5, 0, 0.9).outside(1, 2)
