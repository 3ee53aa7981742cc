import math

import pytest

from deepnet_theory import claims
from deepnet_theory.spec.verdict import Verdict


@pytest.fixture(scope="module")
def verdicts():
    claims.claims()  # makes paper_checks importable wherever it lies
    from paper_checks import _verdicts

    return _verdicts


def interval(low, high):
    from deepnet_theory.numeric.judging.statistics import Interval

    return Interval((low + high) / 2, low, high)


def test_of_several_conditions_the_worst_counts_and_the_tightest_is_told(verdicts):
    wide, tight = interval(0.98, 1.02), interval(1.03, 1.04)
    found = verdicts.within("a", {"wide": wide, "tight": tight}, 0.95, 1.05, "ratio")
    assert found.verdict is Verdict.SUPPORTED
    assert found.because.startswith("ratio, tight: ")
    both = {"wide": verdicts.numbers(wide), "tight": verdicts.numbers(tight)}
    assert found.evidence["by condition"] == both
    found = verdicts.at_most("a", {"good": wide, "bad": interval(1.2, 1.3)}, 1.0, "ratio")
    assert found.verdict is Verdict.REFUTED
    assert "bad" in found.because


def test_a_condition_without_a_value_is_no_pass(verdicts):
    nothing = interval(math.nan, math.nan)
    found = verdicts.within("a", {"good": interval(0.99, 1.01), "none": nothing}, 0.9, 1.1, "r")
    assert found.verdict is not Verdict.SUPPORTED


def test_each_condition_is_held_against_its_own_prediction(verdicts):
    measured = {"half": interval(0.49, 0.51), "one": interval(0.99, 1.01)}
    own = verdicts.exponent("a", measured, {"half": 0.5, "one": 1.0})
    assert own.verdict is Verdict.SUPPORTED
    swapped = verdicts.exponent("a", measured, {"half": 1.0, "one": 0.5})
    assert swapped.verdict is Verdict.REFUTED
    assert verdicts.exponent("a", measured, 0.5).verdict is Verdict.REFUTED
