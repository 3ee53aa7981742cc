"""The bench of the claims, and the measurements and steps that they share."""

import math

import numpy as np
import pytest
import torch

from deepnet_theory.definitions.expression import UPDATE
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.laboratory.case import Case
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.trial import Trial
from deepnet_theory.models.step import update
from deepnet_theory.proof.algebra import beta
from paper_checks.shared.bound import _steps, measure_bound
from paper_checks.shared.steps.magnitude import magnitude_steps
from paper_checks.shared.steps.magnitude.distance import d, m, t1, t2


@pytest.fixture
def verdicts(shared):
    return shared("judging")


@pytest.fixture
def lab(shared):
    return shared("bench").Lab()


def interval(low, high):
    from deepnet_theory.laboratory.statistics import Interval

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


STEPS = {s.name: s for s in magnitude_steps()}


def test_closed_form_against_a_search():
    generator = np.random.default_rng(0)
    for shape in ((3, 5), (5, 3), (4, 4)):
        w = generator.normal(size=shape)
        gram = w @ w.T
        grid = np.linspace(0.2, 8, 40_001)[1:]
        distances = (gram**2).sum() / grid**4 - 2 * np.trace(gram) / grid**2 + shape[0]
        closed = float(STEPS["magnitude"].rhs.subs({t1: np.trace(gram), t2: np.trace(gram @ gram)}))
        assert abs(grid[distances.argmin()] - closed) < 1e-3


def test_a_xavier_matrix_is_half_way_to_orthogonal():
    """κ and the least distance of one wide square Xavier matrix, as derived: √2 and ½."""
    generator = np.random.default_rng(1)
    width = 400
    w = generator.normal(0, np.sqrt(1 / width), (width, width))
    gram = w @ w.T
    kappa2 = (gram**2).sum() / np.trace(gram)
    exact = float(STEPS["xavier-ratio"].rhs.subs({beta: 1, d: width, m: width}))
    assert kappa2 == pytest.approx(exact, rel=0.02) and exact == pytest.approx(2, rel=0.01)
    residual = ((gram / kappa2 - np.eye(width)) ** 2).sum() / width
    assert residual == pytest.approx(float(STEPS["xavier-residual-square"].rhs), abs=0.02)
    x = generator.normal(size=width)
    assert np.linalg.norm(x @ w) == pytest.approx(np.linalg.norm(x), rel=0.15)


def test_probe_of_independent_directions():
    generator = np.random.default_rng(2)
    rows, columns, draws = 6, 9, 40_000
    gradient = generator.normal(size=(rows, columns))
    u = generator.normal(0, 0.3, (draws, rows, columns))
    inner = (u * gradient).sum((1, 2))
    share = (inner**2).mean() / ((gradient**2).sum() * (u**2).sum((1, 2)).mean())
    exact = float(STEPS["probe-share"].rhs.subs({d: rows, m: columns}))
    assert share == pytest.approx(exact, rel=0.05)


SETTINGS = Settings(width=16, heads=2, tokens=8, seeds=4, dtype="float64", device="cpu")
DEEPNORM = own_rule(("encoder",), "(2*N)**(1/4)", "(8*N)**(-1/4)")
PLAIN = own_rule(("encoder",), "1", "1")
SGD = Selection(optimizer="sgd")


def test_random_directions_stay_within_the_bound():
    found = measure_bound(Case(SGD, DEEPNORM, {"N": 8}, SETTINGS), "random")
    assert max(found.tightness) < 1
    assert all(0 < m <= w for m, w in zip(found.mean, found.worst, strict=True))


def test_a_gradient_step_exceeds_it_because_the_matrices_norms_are_not_their_entries():
    # Theorem 4.2 measures scalars; a step along the gradient lines up with real matrices.
    found = measure_bound(Case(SGD, PLAIN, {"N": 4}, SETTINGS))
    assert min(found.tightness) > 1


def test_the_encoders_sum_is_amplified_through_every_decoder_layer():
    layers = 6
    selection = Selection(optimizer="sgd", stack="encoder-decoder")
    rule = own_rule(("encoder", "decoder"), "1", "1", "2", "1/2")
    depth = {"N": 2, "M": layers}
    trial = Trial(Case(selection, rule, depth, SETTINGS))
    group = trial.parameters(roles=[Role.SCALED])
    steps = _steps(trial, group, "random")
    sums = {"encoder": 0.0, "decoder": 0.0}
    for part in sums:
        places = {(d.layer, d.sublayer) for _, d in group if d.part == part}
        for place in places:
            own = [
                step.flatten(1).norm(dim=1) ** 2
                for (_, d), step in zip(group, steps, strict=True)
                if d.part == part and (d.layer, d.sublayer) == place
            ]
            sums[part] = sums[part] + sum(own).sqrt()
    amplified = layers * 0.5**2 / 2
    expected = math.sqrt(2) * (amplified * sums["encoder"] + 0.5 / 2 * sums["decoder"])
    found = measure_bound(Case(selection, rule, depth, SETTINGS), "random").bound
    assert torch.allclose(torch.tensor(found, dtype=torch.float64), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"direction": "up"}, "unknown direction 'up'"),
        ({"selection": Selection(optimizer="sgd", placement="pre-ln")}, "post-ln"),
        ({"settings": Settings(width=16, heads=2)}, "float64"),
    ],
)
def test_what_the_bound_does_not_speak_of_is_refused(change, said):
    asked = {"selection": SGD, "rule": PLAIN, "depth": {"N": 2}, "settings": SETTINGS, **change}
    with pytest.raises(InputError, match=said):
        direction = asked.pop("direction", "optimizer")
        measure_bound(Case(**asked), direction)
