"""The bench of the claims, and the measurements and exact moments that they share."""

import math

import numpy as np
import pytest

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.laboratory.statistics import Interval
from paper_checks.shared import changes, stacks
from paper_checks.shared import judging as verdicts
from paper_checks.shared.bench import Lab
from paper_checks.shared.fitting import powers, settled

REFUTED, SUPPORTED = Verdict.REFUTED, Verdict.SUPPORTED


def interval(low, high):
    return Interval((low + high) / 2, low, high)


def test_of_several_conditions_the_worst_counts_and_the_tightest_is_told():
    wide, tight = interval(0.98, 1.02), interval(1.03, 1.04)
    found = verdicts.within({"wide": wide, "tight": tight}, 0.95, 1.05, "ratio")
    assert found.verdict is SUPPORTED and found.because.startswith("ratio, tight: ")
    both = {"wide": verdicts.numbers(wide), "tight": verdicts.numbers(tight)}
    assert found.evidence["by condition"] == both
    found = verdicts.at_most({"good": wide, "bad": interval(1.2, 1.3)}, 1.0, "ratio")
    assert found.verdict is REFUTED and "bad" in found.because
    nothing = interval(math.nan, math.nan)  # a condition without a value is no pass
    found = verdicts.within({"good": interval(0.99, 1.01), "none": nothing}, 0.9, 1.1, "r")
    assert found.verdict is not SUPPORTED
    with pytest.raises(ValueError, match="nothing was measured"):
        verdicts.at_most({}, 1.0, "ratio")
    measured = {"half": interval(0.49, 0.51), "one": interval(0.99, 1.01)}
    assert verdicts.exponent(measured, {"half": 0.5, "one": 1.0}).verdict is SUPPORTED
    for wrong in ({"half": 1.0, "one": 0.5}, 0.5):
        assert verdicts.exponent(measured, wrong).verdict is REFUTED


def test_a_fit_shows_its_points_as_evidence():
    at = (4, 8, 16, 32)
    noise = np.exp(0.001 * np.random.default_rng(0).standard_normal((8, 4)))
    found = Lab.exponent({"text": settled(at, np.sqrt(at) * noise)}, 0.5, (("none", 0.0),))
    assert found.verdict is SUPPORTED and found.evidence["by condition"]["text"]["at"] == at
    knobs = [(a, b) for a in (1.0, 2.0, 4.0) for b in (1.0, 3.0)]
    values = np.array([[a**2 / b for a, b in knobs]] * 2) * noise[:2, :1]
    assert np.allclose([i.estimate for i in powers(knobs, values)], [2, -1])


def test_seeds_in_lots_are_the_lots_one_after_another():
    net, squares = stacks.PLAIN, stacks.Pass.squared
    s = Lab().settings(width=16, tokens=4, seeds=4)
    parts = [stacks.per_depth(net, (1, 2), lot, squares) for lot in stacks.lots(s, 2)]
    both = stacks.per_depth(net, (1, 2), s, squares, at_once=2)
    assert both.tolist() == [row for part in parts for row in part.tolist()]
    with pytest.raises(ValueError, match="float64"):  # a step that rounding would lose
        changes.scaled_updates(stacks.Net(), (4,), Lab().settings(step="all"))
