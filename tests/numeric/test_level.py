"""The verdict on the absolute size, and faults of one matrix kind that it sees at one depth."""

import math

import numpy as np
import pytest
from published_rules import SMALL, rule

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.judging import NEAR, find_arrival, judge_level
from deepnet_theory.numeric.model_update import measure_model_update
from deepnet_theory.numeric.one_sublayer import predict_model_update
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.spec.rule import Rule, RuleEntry, own_rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict

DEPTHS = [{"N": 8}, {"N": 16}]
SIZES = np.exp(np.random.default_rng(0).normal(0, 0.3, (8, 1))) * np.ones((8, 2))
NOISE = np.exp(np.random.default_rng(1).normal(0, 0.01, (8, 2)))


def level(factor, identity=0.1, noise=1.0):
    measured = SIZES * NOISE**noise * np.asarray(factor)
    found = judge_level(DEPTHS, measured, SIZES, np.full((8, 2), identity))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("factor", "noise", "verdict"),
    [
        (1.0, 1.0, Verdict.SUPPORTED),
        (1.3, 1.0, Verdict.REFUTED),
        (0.8, 1.0, Verdict.REFUTED),
        (1.0, 10.0, Verdict.UNDECIDED),
        (math.nan, 1.0, Verdict.UNDECIDED),
    ],
)
def test_the_ratio_is_paired_by_seed(factor, noise, verdict):
    """Sizes scatter by a third from seed to seed; the ratio by a hundredth."""
    assert level(factor, noise=noise).verdict is verdict


def test_the_worst_depth_decides_and_far_from_the_identity_nothing():
    found = level([1.0, 1.2])
    assert found.verdict is Verdict.REFUTED and found.depth == {"N": 16}
    assert found.low < found.ratio < found.high and found.ratio == pytest.approx(1.2, rel=0.02)
    assert level([1.02, 1.0]).depth == {"N": 8}
    found = level(1.0, identity=2 * NEAR)
    assert found.verdict is Verdict.UNDECIDED and "the prediction ends before" in found.because
    assert judge_level([], np.empty((8, 0)), np.empty((8, 0)), np.empty((8, 0))) is None


LAB = Settings(width=32, heads=2, tokens=16, seeds=8, draws=4, data="gaussian:0")
BETA = "(2*N)**(-1/4)"
FAULTS = {
    "none": (),
    "fc2 of another convention": (("fc2", "(8*N)**(-1/4)"),),
    "value not scaled": (("value", "1"),),
    **{name: ((name, "1.3*" + BETA),) for name in ("value", "output", "fc1", "fc2")},
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in list(FAULTS)[2:]]


@pytest.mark.parametrize("fault", [*list(FAULTS)[:2], *SLOW])
def test_a_fault_in_one_matrix_kind_is_seen_at_one_depth(fault):
    """A gain of one kind that is wrong by a constant leaves the exponent alone, not the level."""
    entry = RuleEntry("encoder", "*", "(2*N)**(1/4)", BETA)
    faulty = RuleEntry("encoder", "*", "(2*N)**(1/4)", BETA, gains=FAULTS[fault])
    sgd = Selection(optimizer="sgd")
    model, ruled = (Case(sgd, Rule("own", (e,)), {"N": 12}, LAB) for e in (faulty, entry))
    measured = np.array([measure_model_update(model, draws=LAB.draws).values]).T
    predicted = np.array([predict_model_update(ruled).values]).T
    found = judge_level([{"N": 12}], measured, predicted, np.full((8, 1), 0.2))
    assert found is not None
    assert found.verdict is (Verdict.SUPPORTED if fault == "none" else Verdict.REFUTED)


def test_a_power_that_leads_later_is_found_with_the_depth_from_which_it_does(adam):
    """Under ‖θ‖² sign(g) query and key grow as N^{1/4}, and are a small part at first."""

    def arrival(selection, given, exponent):
        return find_arrival(lambda d: Case(selection, given, d, SMALL), {"N": 64}, ["N"], exponent)

    squared = Selection(update="-eta*norm(theta)**2*sign(g)")
    own = own_rule(("encoder",), "(2*N)**(1/4)", BETA)
    found = arrival(squared, own, 0.25)
    assert [name for _, name in found.leading] == ["attention query", "attention key"]
    assert 1e3 < found.depth < 1e6
    for wrong in (0.5, 0.0):
        other = arrival(squared, own, wrong)
        assert not other.leading and "lead to +0.25" in other.words("N")
    # one power needs no crossing, and far from the identity none arrives
    assert "have the predicted power" in arrival(adam, rule("adam"), 0.0).words("N")
    assert arrival(adam, own_rule(("encoder",), "1", "1"), 1.0) is None
