"""Tests of both sides of the published bounds."""

import math

import pytest
import torch

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role
from paper_checks.shared.bound import SIZE, _steps, measure_bound

SETTINGS = Settings(width=16, heads=2, tokens=8, seeds=4, dtype="float64", device="cpu")
DEEPNORM = own_rule(("encoder",), "(2*N)**(1/4)", "(8*N)**(-1/4)")
PLAIN = own_rule(("encoder",), "1", "1")
SGD = Selection(optimizer="sgd")


@pytest.mark.parametrize("layers", [2, 8])
def test_random_directions_stay_within_the_bound(layers):
    found = measure_bound(Case(SGD, DEEPNORM, {"N": layers}, SETTINGS), "random")
    assert max(found.tightness) < 1
    assert all(0 < m <= w for m, w in zip(found.mean, found.worst, strict=True))


def test_a_gradient_step_exceeds_it_because_the_matrices_norms_are_not_their_entries():
    # Theorem 4.2 measures scalars; a step along the gradient lines up with real matrices.
    found = measure_bound(Case(SGD, PLAIN, {"N": 4}, SETTINGS))
    assert min(found.tightness) > 1


def test_the_right_side_is_the_sum_written_out():
    rule = own_rule(("encoder",), "2", "1/3")
    found = measure_bound(Case(SGD, rule, {"N": 1}, SETTINGS), "random")
    # ‖Δθ₁‖² + ‖Δθ₂‖² = SIZE²: between one sublayer's share and two equal ones
    unit = math.sqrt(2) / 3 / 2 * SIZE
    assert all(unit <= b <= math.sqrt(2) * unit * (1 + 1e-9) for b in found.bound)


@pytest.mark.parametrize("layers", [2, 6])
def test_the_encoders_sum_is_amplified_through_every_decoder_layer(layers):
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
