"""Exactly the criteria that an assumption gives are tested, and each can fail."""

import math

import numpy as np
import pytest

from deepnet_theory.numeric.judging import judge_assumption
from deepnet_theory.spec.assumption import Assumption
from deepnet_theory.spec.verdict import Verdict

DEPTHS = (8, 16, 32, 64)


def values(exponent, size=1.0, noise=0.01):
    rng = np.random.default_rng(0)
    jitter = np.exp(noise * rng.standard_normal((6, len(DEPTHS))))
    return size * np.asarray(DEPTHS, dtype=float) ** exponent * jitter


def premise(**criteria):
    return Assumption("a", "statement", measurement="m", **criteria)


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
def test_verdicts(criteria, measured, verdict):
    found = judge_assumption(premise(**criteria), DEPTHS, measured)
    assert found.verdict is verdict
    assert found.because
    assert "\n" not in found.because
