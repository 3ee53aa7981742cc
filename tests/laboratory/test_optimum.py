"""Best and failing rates of losses whose optimum is known, in depth and in width."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.laboratory.optimum import (
    best_exponent,
    curve_of,
    failing_rate,
    geometric,
    judged,
    loss_above,
    of_steps,
    with_best,
)
from deepnet_theory.laboratory.runs import Ended
from deepnet_theory.laboratory.statistics import Interval

RATES = 1e-3 * 2.0 ** np.arange(8)
DEPTHS = [8, 16, 32, 64]
PLACES = [{"N": n} for n in DEPTHS]
FAILED = 50.0  # no run of these tests that is as bad has learnt
CLIFF = [4.0, 3.5, 3.1, 2.8, 2.6, 900.0, math.nan, math.nan]


def valley(optimum):
    """Losses of a parabola in log η."""
    return [2.5 + 0.3 * math.log(rate / optimum) ** 2 for rate in RATES]


def curve(depth, rates, values, level=FAILED):
    """A curve of losses by rate and seed."""
    row = {rate: [Ended(v, None) for v in seeds] for rate, seeds in zip(rates, values, strict=True)}
    return curve_of({"N": depth}, row, rates, level)


def alone(losses, level=FAILED, rates=RATES):
    """The curve of one size and two equal seeds, with its best rate."""
    (found,) = with_best([curve(4, rates, [[loss, loss] for loss in losses])], level)
    return found


@given(st.floats(0.0016, 0.08))
def test_the_vertex_of_a_parabola_is_found_where_the_grid_brackets_it(optimum):
    found = alone(valley(optimum))
    assert found.best == pytest.approx(optimum) and found.best_loss == pytest.approx(2.5)
    assert found.slack == 0 and not found.finding


def test_outside_the_grid_no_rate_is_the_best():
    for losses, side in (
        (valley(1e-4), "below 0.001"),
        (valley(1.0), "above 0.128"),
        ([math.nan] * 8, "below"),
    ):
        found = alone(losses)
        assert math.isnan(found.best) and "2 of 2 seeds is not within the grid" in found.finding
        assert f"ask for rates {side}" in found.finding


def test_beyond_a_cliff_nothing_is_made_of_one_side():
    # a parabola of the first five says 0.032
    assert alone(CLIFF).best == pytest.approx(RATES[4], rel=0.03)
    assert RATES[3] < alone([*CLIFF[:5], 2.7, *CLIFF[6:]]).best < RATES[5]
    # the three least losses lie on the flat side; beside a cliff nothing is interpolated
    losses = [3.0, 2.8, 2.524, 2.533, 2.598, 3.2, 3.3, 3.3]
    inside, cliff = (alone(losses, level) for level in (FAILED, 2.7))
    assert RATES[2] < inside.best < RATES[3] and inside.slack == 0
    assert cliff.best == pytest.approx(RATES[2]) and cliff.slack == pytest.approx(math.log(2) / 2)
    for rates in ([1e-3, 4e-3, 6e-3], [3e-3, 4e-3, 16e-3]):  # the wider gap is below, or above
        uneven = alone([3.0, 2.5, 3.2], 2.7, rates)
        assert uneven.best == pytest.approx(4e-3) and uneven.slack == pytest.approx(math.log(2))


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


@given(st.floats(-0.3, 0.3), st.sampled_from([0.0, 0.02, 0.3]))
def test_a_planted_exponent_is_told_from_transfer(exponent, noise):
    rates = best(exponent, noise)
    found = best_exponent("N", PLACES, rates)
    slope = np.polyfit(np.log(DEPTHS), np.log(rates).mean(0), 1)[0]
    assert found.estimate == pytest.approx(slope, abs=1e-9) and found.fitted_from == 8
    verdict = Interval(slope, found.low, found.high).verdict(-1 / 16, 1 / 16)
    assert found.verdict is verdict and found.constant == (verdict is Verdict.SUPPORTED)
    if noise < 0.1 and abs(abs(exponent) - 1 / 16) > 0.03:
        assert verdict is (Verdict.SUPPORTED if abs(exponent) < 1 / 16 else Verdict.REFUTED)


def test_the_smallest_depth_a_missing_best_and_the_grid_change_what_is_told():
    alone = best_exponent("N", PLACES, best(0.0) * [0.7, 1, 1, 1])  # the least depth
    assert (alone.verdict, alone.fitted_from) == (Verdict.SUPPORTED, 16)
    missing = best_exponent("N", PLACES, best(0.0), ["at depth 8 it is not"])
    assert missing.verdict is Verdict.UNDECIDED and "depth 8" in missing.because
    # rates of the grid are known to half a step: an interval of no width would be the grid's
    same = np.full((4, len(DEPTHS)), RATES[4])
    of_grid = best_exponent("N", PLACES, same, slack=[math.log(2) / 2] * 4)
    assert of_grid.verdict is Verdict.UNDECIDED and of_grid.high > 0.25
    assert "the grid alone" in of_grid.because


def test_what_a_size_costs_is_paired_by_seed():
    shallow, rates = np.array([[3.0, 3.5], [2.5, 3.0], [2.8, 3.2]]), (0.1, 0.2, 0.4)
    small, large, failed = (
        curve(n, rates, values)
        for n, values in ((4, shallow), (8, shallow + 0.25), (8, np.full((3, 2), math.nan)))
    )
    found = loss_above(small, 0.21, large, 3.1)
    assert found.at == {"rate": 0.2} and (found.low, found.high) == pytest.approx((0.25, 0.25))
    assert loss_above(small, 0.21, failed, 3.1).mean == pytest.approx(3.1 - 2.75)


def test_a_wrong_rule_is_judged_at_the_best_rate_of_the_model_that_it_shares_with_the_rule():
    # AdamW, 2 and 16 layers: the rule, and no κ, whose own fit moves the small model's best rate
    rates, small = (0.002, 0.008, 0.032), [[2.518] * 2, [2.498] * 2, [2.810] * 2]
    rule, wrong = (
        with_best([curve(2, rates, small), curve(16, rates, [[one] * 2 for one in deep])], FAILED)
        for deep in ([2.522, 2.479, 2.836], [2.532, 2.639, 2.970])
    )
    assert wrong[0].best < 0.004 < rule[0].best
    _, cost, gap, verdict = judged(wrong, FAILED, rule)
    assert gap.mean == pytest.approx(2.639 - 2.479) and cost.mean == pytest.approx(2.639 - 2.498)
    assert verdict is Verdict.REFUTED


def over_steps(s, u=0.0, off=1.0):
    """Curves of 2 + (ηT)^-s + η(ηT)^-u, for the second seed of ``off`` times the longest T."""
    rates, found = 1e-3 * 2.0 ** np.arange(12)[:, None], []
    for steps in (100, 200, 1600):
        t = np.array([steps, steps * (off if steps == 1600 else 1.0)])
        values = 2 + (rates * t) ** -s + rates * (rates * t) ** -u
        found.append(replace(curve(4, rates[:, 0], values), depth={"N": 4, "T": steps}))
    curves = with_best(found, FAILED)
    exponents, cost, _, verdict = judged(curves, FAILED)
    return exponents, cost, verdict, [*of_steps(curves, exponents, is_constant=True)]


@given(st.floats(0.3, 1.2))
def test_by_the_losses_at_one_rate_s_is_known_and_so_is_the_exponent_of_the_best(s):
    (exponent,), cost, verdict, (of_best, of_losses) = over_steps(s)
    assert of_losses.estimate == pytest.approx(s, abs=1e-3)
    assert float(of_losses.because.split("^")[1]) == pytest.approx(-s / (1 + s), abs=1e-3)
    assert exponent.estimate == pytest.approx(-s / (1 + s), abs=0.04)
    assert cost.mean > 0 and verdict is Verdict.REFUTED
    assert (of_best.verdict, of_losses.verdict) == (Verdict.SUPPORTED,) * 2


def test_where_s_may_be_no_more_than_u_no_rate_is_forecast():
    (exponent,), _, verdict, (of_best, _) = over_steps(0.4, 0.41, off=1.1)
    assert exponent.estimate == pytest.approx(0, abs=0.02) and verdict is Verdict.SUPPORTED
    assert of_best.low < 0 < of_best.high and "no forecast" in of_best.because
    *_, (of_best, of_losses) = over_steps(0.4, 0.2, off=20.0)  # a loss that falls late and fast
    assert of_losses.verdict is not Verdict.SUPPORTED and "no forecast" in of_best.because


@given(st.integers(0, 31).map(lambda n: n / 31), st.booleans())  # none is a tenth
def test_a_deep_stack_that_loses_a_tenth_of_what_is_learnt_does_not_transfer(lost, bracketed):
    level, shallow = 3.5, np.array(valley(RATES[3]))
    deep = lost + (shallow if bracketed else 2.5 - 1e-9 * RATES)  # its best is at an end
    curves = [curve(n, RATES, np.outer(of, [1, 1])) for n, of in ((4, shallow), (64, deep))]
    _, cost, _, verdict = judged(with_best(curves, level), level)
    assert (cost.low, cost.high) == pytest.approx((lost, lost), abs=1e-9)
    alone = Verdict.SUPPORTED if bracketed else Verdict.UNDECIDED
    assert verdict is (Verdict.REFUTED if lost > 0.1 * (level - 2.5) else alone)


def refuted(exponent, seeds, step=1):
    """How often a constant best rate is refuted, and the mean exponent, of losses as Adam's.

    At 4 and 16 layers, with the noise of real runs, at ``step`` times a factor 2 between rates.
    """
    x, drawn, found = np.arange(5) * math.log(2), np.random.default_rng(0), []
    shape = CubicSpline(x, [2.795, 2.607, 2.525, 2.528, 2.599])  # 4 layers, width 64
    for _ in range(200):
        shared, curves = 0.012 * drawn.standard_normal((5, seeds)), []
        for n in (4, 16):
            losses = shape(x - exponent * math.log(n / 4))[:, None] + shared
            losses += 0.01 * drawn.standard_normal(losses.shape)
            curves.append(curve(n, RATES[:5:step], losses[::step], 3.146))
        best_of = np.array([c.best_by_seed for c in with_best(curves, 3.146)]).T
        found.append(best_exponent("N", [{"N": 4}, {"N": 16}], best_of))
    known = [e.estimate for e in found if math.isfinite(e.estimate)]
    return np.mean([e.verdict is Verdict.REFUTED for e in found]), np.mean(known)


def test_one_curvature_finds_an_eighth_and_no_exponent_where_there_is_none():
    share, estimate = refuted(1 / 8, 8)
    assert share > 0.5 and estimate == pytest.approx(1 / 8, abs=0.02)
    assert refuted(1 / 8, 4, step=2)[0] > share  # three rates a factor 4 apart, half of the seeds
    assert max(refuted(0.0, 8, step)[0] for step in (1, 2)) <= 0.05


@given(st.floats(-0.5, 0.5), st.floats(0.05, 1.0), st.floats(-1.0, 1.0))
def test_curves_that_only_move_up_have_one_best_rate_whatever_their_shape(bend, height, tilt):
    """Through the same three rates, and where they move aside the shift is found exactly."""
    x = np.log(RATES[2:7]) - np.log(RATES[4])
    losses = 2.5 + height * x**2 + 0.05 * bend * x**3
    values = np.outer(losses, [1, 1, 1]) + np.array([0.0, 0.1, 0.3])
    two = with_best([curve(n, RATES[2:7], values + up) for n, up in ((4, 0.0), (64, tilt))], FAILED)
    assert two[0].best_by_seed == pytest.approx(two[1].best_by_seed)
    aside = height * (x - 0.3) ** 2
    moved = with_best(
        [curve(n, RATES[2:7], np.outer(y, [1, 1])) for n, y in ((4, height * x**2), (64, aside))],
        FAILED,
    )
    ratio = moved[1].best / moved[0].best
    assert ratio == pytest.approx(math.exp(0.3)) and moved[1].slack == 0


def test_without_a_parabola_at_one_size_the_rates_are_the_grids():
    good = np.outer(valley(0.0055), [1, 1])
    for level, other in ((3.2, np.outer(CLIFF, [1, 1])), (FAILED, -good), (FAILED, 5 - good)):
        found = with_best([curve(4, RATES, good), curve(8, RATES, other)], level)
        assert found[0].best == pytest.approx(RATES[2]) and found[0].slack > 0


def test_a_curve_counts_what_learns_nothing_and_has_no_best_where_a_seed_has_none():
    values = {1e-3: (2.0, 3.3), 2e-3: (2.0, 2.1), 4e-3: (math.nan, 3.2)}
    row = {rate: [Ended(value, None) for value in own] for rate, own in values.items()}
    assert curve_of({"N": 4}, row, tuple(row), 3.2).collapsed == (1, 0, 2)
    known, unknown = (geometric(np.array([1e-3, end])) for end in (2e-3, math.nan))
    assert known.low < known.estimate < known.high
    assert all(map(math.isnan, unknown.numbers))
