"""Learnt multipliers in the laboratory: their step alone, beside the share that the table has."""

import math

import pytest

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.sizes.table import table, texts
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Role

SMALL = {"width": 32, "heads": 4, "tokens": 4, "batch": 1, "dtype": "float64"}
SHALLOW, DEEP = 4, 32


def moved_by_multipliers(selection, rule, layers, seeds):
    """‖ΔF‖/η of one step of the learnt multipliers at one learning rate, and their count."""
    trial = Trial(Case(selection, rule, {"N": layers}, Settings(seeds=seeds, **SMALL)))
    parameters = [p for p, _ in trial.parameters(roles={Role.RESIDUAL_GAIN})]
    step = trial.first_step(parameters, 1e-4)
    moved = trial.moved(step.before, parameters, step.changes) / 1e-4
    return float(moved.norm(dim=-1).square().mean().sqrt()), len(parameters)


@pytest.mark.parametrize(
    ("placement", "optimizer", "closure", "seeds"),
    [
        ("layer-scale", "adam", "complete", 4),  # S
        ("layer-scale", "sgd", "complete", 4),  # 1/S
        ("layer-scale", "lamb", "unit-init", 4),  # 1
        ("stream-scalar", "adam", "complete", 16),  # √S: S numbers, beside what is added behind
    ],
)
def test_multipliers_move_the_output_by_their_share(placement, optimizer, closure, seeds):
    selection = Selection(optimizer=optimizer, placement=placement, closure=closure)
    of = table(selection)
    (share,) = {row.share for row in of.parameters if row.role is Role.RESIDUAL_GAIN}
    sizes = []
    for layers in (SHALLOW, DEEP):
        size, count = moved_by_multipliers(selection, texts(of.rule), layers, seeds)
        assert count == 2 * layers
        sizes.append(size)
    slope = math.log(sizes[1] / sizes[0]) / math.log(DEEP / SHALLOW)
    assert slope == pytest.approx(float(share.exponent("N")), abs=0.15)
