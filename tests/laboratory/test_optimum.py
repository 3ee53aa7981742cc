"""Best and failing rates of losses whose optimum is known, in depth and in width."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.laboratory.common_mode import Ended
from deepnet_theory.laboratory.optimum import (
    best_exponent,
    best_rate,
    cost_of_depth,
    curve_of,
    failing_rate,
    geometric,
    transfers,
)
from deepnet_theory.laboratory.statistics import Interval

RATES = [1e-3 * 2**i for i in range(8)]
DEPTHS = [8, 16, 32, 64]
PLACES = [{"N": n} for n in DEPTHS]
FAILED = 50.0  # no run of these tests that is as bad has learnt
CLIFF = [4.0, 3.5, 3.1, 2.8, 2.6, 900.0, math.nan, math.nan]


def valley(optimum):
    """Losses of a parabola in log η."""
    return [2.5 + 0.3 * math.log(rate / optimum) ** 2 for rate in RATES]


@given(st.floats(0.0016, 0.08))
def test_the_vertex_of_a_parabola_is_found_where_the_grid_brackets_it(optimum):
    found = best_rate(RATES, valley(optimum), FAILED)
    assert found.rate == pytest.approx(optimum) and found.loss == pytest.approx(2.5)
    assert found.slack == 0


def test_outside_the_grid_no_rate_is_the_best():
    for losses, side in (
        (valley(1e-4), "below"),
        (valley(1.0), "above"),
        ([math.nan] * 8, "below"),
    ):
        found = best_rate(RATES, losses, FAILED)
        assert math.isnan(found.rate) and found.outside == side


def test_beyond_a_cliff_nothing_is_made_of_one_side():
    # a parabola of the first five says 0.032
    assert best_rate(RATES, CLIFF, FAILED).rate == RATES[4]
    assert RATES[3] < best_rate(RATES, [*CLIFF[:5], 2.7, *CLIFF[6:]], FAILED).rate < RATES[5]
    # the three least losses lie on the flat side; beside a cliff nothing is interpolated
    losses = [3.0, 2.8, 2.524, 2.533, 2.598, 3.2, 3.3, 3.3]
    inside, cliff = (best_rate(RATES, losses, b) for b in (FAILED, 2.7))
    assert RATES[2] < inside.rate < RATES[3] and inside.slack == 0
    assert cliff.rate == RATES[2] and cliff.slack == pytest.approx(math.log(2) / 2)
    uneven = best_rate([1e-3, 4e-3, 6e-3], [3.0, 2.5, 3.2], 2.7)  # the wider gap is below
    assert uneven.rate == 4e-3 and uneven.slack == pytest.approx(math.log(4) / 2)


def test_the_failing_rate_is_the_first_above_the_best():
    losses = [5.0, 3.3, 2.9, 2.7, 3.0, 3.25, 3.1, math.nan]
    assert failing_rate(RATES, losses, 3.2) == RATES[5]  # not the first one, too slow to learn
    assert failing_rate(RATES, [*losses[:5], 3.0, 3.1, math.nan], 3.2) == RATES[7]
    assert failing_rate(RATES, valley(0.01), 100.0) is None
    assert failing_rate(RATES, [math.nan] * 8, 3.2) == RATES[0]


def best(exponent, noise=0.02):
    """Best rates (seeds, depths) that go as a power of the depth."""
    drawn = np.exp(np.random.default_rng(0).normal(0, noise, (6, len(DEPTHS))))
    return 0.012 * (np.array(DEPTHS) / 8.0) ** exponent * drawn


BENT = best(0.0) * [0.7, 1, 1, 1]  # the least depth alone
SAME = np.full((4, len(DEPTHS)), RATES[4])


@pytest.mark.parametrize(
    ("rates", "given", "verdict", "fitted_from", "because"),
    [
        (best(0.0), {}, Verdict.SUPPORTED, 8, "inside"),
        (best(-0.25), {}, Verdict.REFUTED, 8, "beyond"),
        (best(0.25), {}, Verdict.REFUTED, 8, "beyond"),
        (best(0.0, 0.3), {}, Verdict.UNDECIDED, 8, "nor beyond"),
        (best(0.0), {"outside": ["at depth 8 it is not"]}, Verdict.UNDECIDED, None, "depth 8"),
        (BENT, {}, Verdict.SUPPORTED, 16, "inside"),
        # rates of the grid are known to half a step: an interval of no width would be the grid's
        (SAME, {"slack": [math.log(2) / 2] * 4}, Verdict.UNDECIDED, 8, "is the grid's"),
    ],
)
def test_a_planted_exponent_is_told_from_transfer(rates, given, verdict, fitted_from, because):
    found = best_exponent("N", PLACES, rates, **given)
    assert found.verdict is verdict and because in found.because
    assert found.fitted_from == fitted_from and (found.constant == (verdict is Verdict.SUPPORTED))
    if verdict is Verdict.REFUTED:
        slope = np.polyfit(np.log(DEPTHS), np.log(rates).mean(0), 1)[0]
        assert found.estimate == pytest.approx(slope)
    assert "slack" not in given or found.high > 0.25


def test_what_depth_costs_is_paired_by_seed():
    shallow = np.array([[3.0, 3.5], [2.5, 3.0], [2.8, 3.2]])
    rate, found = cost_of_depth([0.1, 0.2, 0.4], 0.21, shallow, shallow + 0.25, 3.1)
    assert rate == 0.2 and (found.low, found.high) == pytest.approx((0.25, 0.25))
    _, found = cost_of_depth([0.1, 0.2, 0.4], 0.21, shallow, np.full((3, 2), math.nan), 3.1)
    assert found.estimate == pytest.approx(3.1 - 2.75)


FLAT = best_exponent("N", PLACES, best(0.0))
OPEN = best_exponent("N", PLACES, best(0.0), ["?"])


@pytest.mark.parametrize(
    ("exponent", "lost", "learnt", "verdict"),
    [
        (FLAT, (0.5, 0.2, 0.8), 0.6, Verdict.REFUTED),
        (OPEN, (0.5, 0.2, 0.8), 0.6, Verdict.REFUTED),
        (FLAT, (0.04, 0.03, 0.05), 0.6, Verdict.SUPPORTED),
        (FLAT, (0.04, 0.03, 0.05), 0.2, Verdict.REFUTED),  # by what there was to lose
        (FLAT, (0.5, -0.1, 1.1), 0.6, Verdict.SUPPORTED),
        (OPEN, (0.5, -0.1, 1.1), 0.6, Verdict.UNDECIDED),
        (FLAT, (math.nan,) * 3, 0.6, Verdict.SUPPORTED),  # a seed diverged
    ],
)
def test_a_rule_whose_deep_stack_does_not_train_does_not_transfer(exponent, lost, learnt, verdict):
    assert transfers(exponent, Interval(*lost), learnt) is verdict


def test_a_curve_counts_what_learns_nothing_and_has_no_best_where_a_seed_has_none():
    values = {1e-3: (2.0, 3.3), 2e-3: (2.0, 2.1), 4e-3: (math.nan, 3.2)}
    row = {rate: [Ended(value, None) for value in own] for rate, own in values.items()}
    assert curve_of({"N": 4}, row, tuple(row), 3.2).collapsed == (1, 0, 2)
    known, unknown = geometric([1e-3, 2e-3]), geometric([1e-3, math.nan])
    assert known.low < known.estimate < known.high
    assert all(map(math.isnan, unknown.numbers))
