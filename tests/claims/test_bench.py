"""The bench of the claims: verdicts, fits, steps and trainings that they share."""

import math

import numpy as np
import pytest
import torch

from deepnet_theory.numeric.stepping import update
from deepnet_theory.spec.expression import UPDATE
from deepnet_theory.spec.verdict import Verdict


@pytest.fixture
def verdicts(shared):
    return shared("judging")


@pytest.fixture
def lab(shared):
    return shared("bench").Lab()


def interval(low, high):
    from deepnet_theory.numeric.statistics import Interval

    return Interval((low + high) / 2, low, high)


def test_of_several_conditions_the_worst_counts_and_the_tightest_is_told(verdicts):
    wide, tight = interval(0.98, 1.02), interval(1.03, 1.04)
    found = verdicts.within({"wide": wide, "tight": tight}, 0.95, 1.05, "ratio")
    assert found.verdict is Verdict.SUPPORTED
    assert found.because.startswith("ratio, tight: ")
    both = {"wide": verdicts.numbers(wide), "tight": verdicts.numbers(tight)}
    assert found.evidence["by condition"] == both
    found = verdicts.at_most({"good": wide, "bad": interval(1.2, 1.3)}, 1.0, "ratio")
    assert found.verdict is Verdict.REFUTED
    assert "bad" in found.because
    nothing = interval(math.nan, math.nan)  # a condition without a value is no pass
    found = verdicts.within({"good": interval(0.99, 1.01), "none": nothing}, 0.9, 1.1, "r")
    assert found.verdict is not Verdict.SUPPORTED
    with pytest.raises(ValueError, match="nothing was measured"):
        verdicts.at_most({}, 1.0, "ratio")
    measured = {"half": interval(0.49, 0.51), "one": interval(0.99, 1.01)}
    own = verdicts.exponent(measured, {"half": 0.5, "one": 1.0})  # each against its own
    assert own.verdict is Verdict.SUPPORTED
    for wrong in ({"half": 1.0, "one": 0.5}, 0.5):
        assert verdicts.exponent(measured, wrong).verdict is Verdict.REFUTED


def test_a_measurement_is_made_once_a_run_and_anew_for_the_next(verdicts):
    from paper_checks.shared.bench import Lab, once

    asked = []

    @once
    def measured(lab):
        asked.append(lab.seed)
        return len(asked)

    first, second = Lab(), Lab()
    assert [measured(first), measured(first), measured(second)] == [1, 1, 2]


def test_a_fit_shows_its_points_as_evidence(verdicts):
    from paper_checks.shared.bench import Lab
    from paper_checks.shared.fitting import powers, settled

    at = (4, 8, 16, 32)
    noise = np.exp(0.001 * np.random.default_rng(0).standard_normal((8, 4)))
    found = Lab.exponent({"text": settled(at, np.sqrt(at) * noise)}, 0.5, (("none", 0.0),))
    assert found.verdict is Verdict.SUPPORTED
    assert found.evidence["by condition"]["text"]["at"] == at
    knobs = [(a, b) for a in (1.0, 2.0, 4.0) for b in (1.0, 3.0)]
    values = np.array([[a**2 / b for a, b in knobs]] * 2) * noise[:2, :1]
    assert np.allclose([i.estimate for i in powers(knobs, values)], [2, -1])


def test_both_trainings_take_the_same_steps(verdicts):
    """Plain SGD by hand beside the loop that the claims share."""
    from paper_checks.shared.training import descend

    batches = [torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [1.0]])]
    weight = torch.nn.Parameter(torch.ones(2, 1))
    seen = []
    losses = descend(
        "sgd", [weight], 0.1, batches, lambda x: (x * weight).square().sum(1), seen.append
    )
    first = torch.tensor([1.0, 4.0])
    after = 1 - 0.2 * first
    assert torch.allclose(losses, torch.stack([first, torch.tensor([9.0, 1.0]) * after**2]))
    assert seen == [0, 1]


def test_seeds_in_lots_are_the_lots_one_after_another(shared, lab):
    stacks, s = shared("stacks"), lab.settings(width=16, tokens=4, seeds=4)
    net, squared = stacks.PLAIN, stacks.Pass.squared
    parts = [stacks.per_depth(net, (1, 2), lot, squared) for lot in stacks.lots(s, 2)]
    both = stacks.per_depth(net, (1, 2), s, squared, at_once=2)
    assert both.tolist() == [row for part in parts for row in part.tolist()]
    with pytest.raises(ValueError, match="float64"):  # a step that rounding would lose
        shared("changes").scaled_updates(stacks.Net(), (4,), lab.settings(step="all"))


def test_both_steps_of_one_backward_pass_are_the_laboratorys(shared, lab, own):
    stacks, s = shared("stacks"), lab.settings(seeds=2)
    net = stacks.Net("(2*N)**(1/4)", "(2*N)**(-1/4)")
    share, _ = own("su-query-key")["both"](net, (4,), s)
    scores = stacks.model_updates(net, (4,), s, lambda d: d.name in ("query", "key"))
    others = stacks.model_updates(net, (4,), s, lambda d: d.name not in ("query", "key"))
    assert share == pytest.approx(scores / others, rel=0.01)


def test_the_exponent_of_a_wrong_rule_is_refuted(shared, lab):
    """SGD's rule under Adam grows as N^{1/2}: neither 0 nor 1 may be SUPPORTED."""
    net, at = shared("stacks").Net("(2*N)**(1/4)", "(2*N)**(-1/4)", "adam"), (8, 24, 72)
    found = lab.settled(at, shared("stacks").model_updates(net, at, lab.settings()))
    judged = [lab.exponent(found, e).verdict for e in (0.0, 0.5, 1.0)]
    assert judged[0] is judged[2] is Verdict.REFUTED and judged[1] is not Verdict.REFUTED


def test_lambs_missing_factor_is_what_refutes_it(own):
    """With 1/√numel in the written formula it is the algorithm's step."""
    names = own("su-lamb")
    g, theta = torch.randn(2, 8, 8), torch.randn(2, 8, 8)
    mended = UPDATE.parse(names["WRITTEN"] + "/sqrt(numel(theta))")
    step = update(mended, 1.0, g, theta)
    assert torch.allclose(step.flatten(1).norm(dim=1), theta.flatten(1).norm(dim=1))
    assert torch.allclose(names["lamb"](theta, g), step, atol=1e-4)
