"""The verdict on an exponent: each way in which a measurement may say less than its interval."""

import math
from fractions import Fraction

import numpy as np
import pytest

from deepnet_theory.numeric.judging import (
    Arrival,
    Plan,
    judge_assumption,
    judge_exponent,
    plan_exponents,
)
from deepnet_theory.numeric.model_update import LINEAR, ModelUpdate
from deepnet_theory.spec.assumption import Assumption
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.results.measurement import Prediction, Predictions
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict

DEPTHS = (8, 16, 32, 64)
NOISE = np.random.default_rng(0).normal(0, 1e-4, (6, len(DEPTHS)))
LINE = np.exp(np.log(DEPTHS) / 2 + NOISE)  # exponent 1/2
LEADS = Arrival((("encoder", "query"),), 5e4)
BENT = np.exp(np.log(200 + np.array(DEPTHS)) + NOISE)  # on its way to exponent 1

BLURRED = BENT * np.exp([[0.2], [-0.2]] * 3 * np.arange(4))  # as expected, give or take 0.3


def judged(
    values = LINE, exponent = 0.5, second_order = 0.0, wanted = 4,
    total = False, depths = DEPTHS, expected = None,
    arrival = lambda _: None,
    rivals = (),
):  # fmt: skip
    plan = Plan(Prediction("N", "all", Fraction(exponent), rivals), total)
    updates = [
        ModelUpdate({"N": n}, 1e-3, (1.0,), second_order, 1e-3, (1.0,), (1.0,), (-1.0,), (-1.0,))
        for n in depths
    ]
    return judge_exponent(
        plan, [{"N": n} for n in depths], values, updates, wanted, expected, arrival
    )


def test_a_line_of_the_predicted_exponent_is_supported_and_of_another_refuted():
    right = judged()
    assert right.verdict is Verdict.SUPPORTED and math.isclose(right.estimate, 0.5, abs_tol=1e-3)
    assert right.low < right.estimate < right.high and right.fitted_from == DEPTHS[0]
    assert "add" not in right.because and "add" in judged(total=True).because
    assert judged(exponent=0.75).verdict is Verdict.REFUTED


NOT_FINITE = {"values": np.vstack([LINE, np.full(4, np.nan)])}
LESS = [  # what is missing, what is said, and whether a wrong exponent is refuted all the same
    ({"second_order": 2 * LINEAR}, "at depth 8 the step was not linear", True),
    ({"second_order": math.nan}, "at depth 8 the step was not linear", True),
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
    assert found.verdict is Verdict.UNDECIDED and because in found.because
    assert (judged(exponent=0.75, **less).verdict is Verdict.REFUTED) == refuted
    if "depths" in less:
        assert all(map(math.isnan, (found.estimate, found.low, found.high)))


def test_a_slope_that_is_predicted_here_is_supported_where_it_arrives_at_the_exponent():
    """A sum of powers whose larger one comes later: the slope here is part of the prediction."""
    expected = BENT * np.exp(0.001 * np.arange(4))
    found = judged(values=BENT, exponent=1, expected=expected, arrival=lambda _: LEADS)
    assert found.verdict is Verdict.SUPPORTED
    assert "query" in found.because and "lead from about N = 5e+04" in found.because
    assert found.here is not None and found.here < 0.9


@pytest.mark.parametrize(
    ("expected", "arrival", "rivals"),
    [
        (BENT * np.array([1, 1.1, 1.2, 1.3]), LEADS, ()),
        (BENT, Arrival((), None, 0.5), ()),  # the prediction has another power in the end
        (BENT, None, ()),  # it does not reach so deep
        (BLURRED, Arrival((), None, 0.5), ()),
        (
            BENT * np.exp([[0.01], [-0.01]] * 3 * np.arange(4)),
            LEADS,
            (("near", Fraction(100_001, 100_000)),),
        ),
    ],
    ids=["another slope", "no arrival", "no reach", "another end of a blurred one", "a rival"],
)
def test_a_slope_is_refuted_where_any_of_it_fails(expected, arrival, rivals):
    found = judged(
        values=BENT, exponent=1, expected=expected, arrival=lambda _: arrival, rivals=rivals
    )
    assert found.verdict is Verdict.REFUTED


def test_a_slope_that_is_expected_here_decides_nothing_where_it_is_blurred_or_depths_miss():
    found = judged(values=BENT, exponent=1, expected=BLURRED, arrival=lambda _: LEADS)
    assert found.verdict is Verdict.UNDECIDED and "too shallow to show +1" in found.because
    leads = Arrival((("encoder", "query"),), None)
    found = judged(values=BENT, exponent=1, expected=BENT, arrival=lambda _: leads, wanted=5)
    assert found.verdict is Verdict.UNDECIDED and "all that counts" in found.because


@pytest.mark.parametrize(
    ("stack", "depth", "says"),
    [
        ("encoder", {"N": 8}, "differ in N alone are needed$"),
        ("encoder-decoder", {"N": 8, "M": 4}, "alone are needed, or equal ratios of N to M"),
    ],
)
def test_one_depth_gives_no_exponent(stack, depth, says):
    with pytest.raises(InputError, match=says):
        plan_exponents(Selection(optimizer="adam", stack=stack), Predictions(()), [depth])


def values(exponent, size=1.0, noise=0.01):
    rng = np.random.default_rng(0)
    jitter = np.exp(noise * rng.standard_normal((6, len(DEPTHS))))
    return size * np.asarray(DEPTHS, dtype=float) ** exponent * jitter


@pytest.mark.parametrize(
    ("criteria", "measured", "verdict"),
    [
        ({"slope": 0.0}, values(0.0), Verdict.SUPPORTED),
        ({"slope": 0.0}, values(0.5), Verdict.REFUTED),
        ({"slope": 0.0}, values(0.0, noise=0.5), Verdict.UNDECIDED),
        ({"slope_at_most": 0.0}, values(-2.0), Verdict.SUPPORTED),
        ({"slope_at_most": 0.0}, values(0.3), Verdict.REFUTED),
        ({"at_most": 0.5}, values(0.0, 0.1), Verdict.SUPPORTED),
        ({"at_most": 0.5}, values(0.5, 0.1), Verdict.REFUTED),  # crosses on the way
        ({"at_most": 0.5}, values(0.0, 0.5), Verdict.UNDECIDED),
        ({"at_least": 0.9}, values(0.0, 0.99), Verdict.SUPPORTED),
        ({"at_least": 0.9}, values(-0.1, 1.0), Verdict.REFUTED),
        ({"slope": 0.0, "at_most": 0.5}, values(0.0, 2.0), Verdict.REFUTED),
        ({}, values(0.0), Verdict.ASSUMED),
        ({"slope": 0.0}, values(math.nan), Verdict.UNDECIDED),
        ({"at_most": 0.5}, values(math.nan), Verdict.UNDECIDED),
        ({"slope": 0.0, "at_most": 1.0}, np.zeros((6, 4)), Verdict.SUPPORTED),
    ],
)
def test_exactly_the_criteria_that_an_assumption_gives_are_judged(criteria, measured, verdict):
    found = judge_assumption(
        Assumption("a", "statement", measurement="m", **criteria), DEPTHS, measured
    )
    assert found.verdict is verdict
    assert found.because
    assert "\n" not in found.because
