"""Best and failing rates of losses whose optimum is known."""

import math

import numpy as np
import pytest

from deepnet_theory.numeric.statistics import Interval
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.training.optimum import (
    best_exponent,
    best_rate,
    cost_of_depth,
    curve_of,
    failing_exponent,
    failing_rate,
    geometric,
    transfers,
)

RATES = [1e-3 * 2**i for i in range(8)]
DEPTHS = [8, 16, 32, 64]
FAILED = 50.0  # no run of these tests that is as bad has learnt


def valley(optimum, shift=0.0):
    """Losses of a parabola in log η."""
    return [2.5 + shift + 0.3 * math.log(rate / optimum) ** 2 for rate in RATES]


def test_the_vertex_of_a_parabola_is_found_where_the_grid_brackets_it():
    for optimum in (0.0031, 0.008, 0.0377):
        found = best_rate(RATES, valley(optimum), FAILED)
        assert found.rate == pytest.approx(optimum) and found.loss == pytest.approx(2.5)
    assert math.isnan(best_rate(RATES, valley(1e-4), FAILED).rate)
    assert best_rate(RATES, valley(1e-4), FAILED).outside == "below"
    assert best_rate(RATES, valley(1.0), FAILED).outside == "above"
    assert best_rate(RATES, [math.nan] * 8, FAILED).outside == "below"


CLIFF = [4.0, 3.5, 3.1, 2.8, 2.6, 900.0, math.nan, math.nan]


def test_beyond_a_cliff_nothing_is_made_of_one_side():
    # a parabola of the first five says 0.032
    assert best_rate(RATES, CLIFF, FAILED).rate == RATES[4]
    assert RATES[3] < best_rate(RATES, [*CLIFF[:5], 2.7, *CLIFF[6:]], FAILED).rate < RATES[5]
    # the three least losses lie on the flat side; beside a cliff nothing is interpolated
    losses = [3.0, 2.8, 2.524, 2.533, 2.598, 3.2, 3.3, 3.3]
    inside, cliff = (best_rate(RATES, losses, b) for b in (FAILED, 2.7))
    assert RATES[2] < inside.rate < RATES[3] and inside.slack == 0
    assert cliff.rate == RATES[2] and cliff.slack > 0


def test_the_failing_rate_is_the_first_above_the_best():
    losses = [5.0, 3.3, 2.9, 2.7, 3.0, 3.25, 3.1, math.nan]
    assert failing_rate(RATES, losses, 3.2) == RATES[5]  # not the first one, too slow to learn
    assert failing_rate(RATES, [*losses[:5], 3.0, 3.1, math.nan], 3.2) == RATES[7]
    assert failing_rate(RATES, valley(0.01), 100.0) is None
    assert failing_rate(RATES, [math.nan] * 8, 3.2) == RATES[0]


def best(exponent, noise=0.02, seeds=6):
    """Best rates (seeds, depths) that go as a power of the depth."""
    drawn = np.random.default_rng(0).normal(0, noise, (seeds, len(DEPTHS)))
    found = [
        [
            best_rate(RATES, valley(0.012 * (n / 8) ** exponent * math.exp(e)), FAILED).rate
            for n, e in row
        ]
        for row in (zip(DEPTHS, one, strict=True) for one in drawn)
    ]
    return np.array(found)


def test_a_planted_exponent_is_told_from_transfer():
    flat = best_exponent("N", DEPTHS, best(0.0), [])
    assert flat.verdict is Verdict.SUPPORTED and flat.constant
    for wrong in (-0.5, -0.25, 0.25):
        found = best_exponent("N", DEPTHS, best(wrong), [])
        assert found.verdict is Verdict.REFUTED and abs(found.estimate - wrong) < 0.03
    noisy = best_exponent("N", DEPTHS, best(0.0, noise=0.3), [])
    assert noisy.verdict is Verdict.UNDECIDED
    outside = best_exponent("N", DEPTHS, best(0.0), ["at depth 8 it is not within the grid"])
    assert outside.verdict is Verdict.UNDECIDED and "depth 8" in outside.because
    known, unknown = geometric([1e-3, 2e-3]), geometric([1e-3, math.nan])  # a seed without a best
    assert known.low < known.estimate < known.high
    assert all(math.isnan(v) for v in (unknown.estimate, unknown.low, unknown.high))


def test_best_rates_that_are_rates_of_the_grid_are_known_to_half_a_step():
    """Every seed at the same rate: an interval of no width would be made of the grid alone."""
    cliff = best_rate(RATES, CLIFF, FAILED)
    assert cliff.slack == pytest.approx(math.log(2) / 2)
    assert best_rate(RATES, valley(0.01), FAILED).slack == 0
    same = np.full((4, len(DEPTHS)), cliff.rate)
    found = best_exponent("N", DEPTHS, same, [], [cliff.slack] * len(DEPTHS))
    assert found.verdict is Verdict.UNDECIDED and found.high > 0.25 and "grid" in found.because


def test_a_shallow_depth_that_bends_is_left_out_and_said():
    bent = best(0.0)
    bent[:, 0] *= 0.7  # the least depth alone
    found = best_exponent("N", DEPTHS, bent, [])
    assert found.fitted_from == 16 and found.verdict is Verdict.SUPPORTED
    assert "from N = 16" in found.because
    falling = best_exponent("N", DEPTHS, best(-0.5), [])
    assert falling.fitted_from == 8 and falling.verdict is Verdict.REFUTED


def test_the_interval_of_failing_rates_holds_what_the_grid_leaves_open():
    """True thresholds between two rates: the slope of the grid's is within the interval."""
    generator = np.random.default_rng(1)
    for exponent in (0.0, -0.25, -0.5):
        for _ in range(50):
            limits = 0.06 * np.array(DEPTHS, dtype=float) ** exponent * generator.uniform(0.9, 1.1)
            rows = [[next(r for r in RATES if r >= t) for t in limits]] * 3
            found = failing_exponent("N", DEPTHS, rows, 2.0, exponent)
            assert found.verdict is not Verdict.REFUTED
            assert found.low <= exponent <= found.high
    assert failing_exponent("N", DEPTHS, [[0.1, 0.1, 0.1, None]], 2.0, 0.0).verdict is (
        Verdict.UNDECIDED
    )
    falling = [[0.4, 0.2, 0.1, 0.05]] * 3
    alike = failing_exponent("N", DEPTHS, falling, 2.0, -0.25)
    assert alike.verdict is Verdict.REFUTED
    x = np.log(DEPTHS) - np.log(DEPTHS).mean()  # each threshold is known to half a step
    grid = math.log(2) / 2 * np.abs(x).sum() / (x**2).sum()
    assert (alike.high - alike.low) / 2 == pytest.approx(grid)


def test_what_depth_costs_is_paired_by_seed():
    shallow = np.array([[3.0, 3.5], [2.5, 3.0], [2.8, 3.2]])
    rate, found = cost_of_depth([0.1, 0.2, 0.4], 0.21, shallow, shallow + 0.25, 3.1)
    assert rate == 0.2 and (found.low, found.high) == pytest.approx((0.25, 0.25))
    diverged = np.full((3, 2), math.nan)
    _, found = cost_of_depth([0.1, 0.2, 0.4], 0.21, shallow, diverged, 3.1)
    assert found.estimate == pytest.approx(3.1 - 2.75)


def test_a_rule_whose_deep_stack_does_not_train_does_not_transfer():
    """Whatever its exponent says; what is lost counts by what there was to lose."""
    flat, unknown = (best_exponent("N", DEPTHS, best(0.0), said) for said in ([], ["?"]))
    lost, little, unsure, nothing = (Interval(*of) for of in (
        (0.5, 0.2, 0.8), (0.04, 0.03, 0.05), (0.5, -0.1, 1.1), (math.nan,) * 3))  # fmt: skip
    assert transfers(unknown, lost, 0.6) is transfers(flat, lost, 0.6) is Verdict.REFUTED
    assert transfers(flat, little, 0.6) is transfers(flat, unsure, 0.6) is Verdict.SUPPORTED
    assert transfers(unknown, little, 0.6) is transfers(unknown, unsure, 0.6) is Verdict.UNDECIDED
    assert transfers(flat, little, 0.2) is Verdict.REFUTED
    assert transfers(flat, nothing, 0.6) is Verdict.SUPPORTED  # a seed diverged


def test_seeds_that_learn_nothing_are_counted_at_every_rate():
    row = {1e-3: (2.0, 3.3), 2e-3: (2.0, 2.1), 4e-3: (math.nan, 3.2)}
    assert curve_of({"N": 4}, row, tuple(row), 3.2).collapsed == (1, 0, 2)
