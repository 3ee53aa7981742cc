"""Sixteen steps at one learning rate: what a first-order balance does not tell, ρ does."""

import pytest
import torch

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.stepping import backward, only, stepping
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.rule.solved_rule import solve_rule

SIZES = Settings(width=32, heads=2, tokens=16, seeds=2)
ETA, STEPS = 2.0**-11, 16


def moved(closure: str, depth: int, steps: int, placement: str = "post-ln") -> float:
    """‖F_T − F_0‖ per token after T steps of Adam's expression."""
    selection = Selection(optimizer="adam", closure=closure, placement=placement)
    trial = Trial(Case(selection, solve_rule(selection), {"N": depth}, SIZES))
    expression = selection.the_optimizer.expression
    parameters = [p for p, _ in trial.parameters()]
    rates = torch.full((trial.seeds,), ETA)
    with torch.no_grad():
        first = trial.output().clone()
    for _ in range(steps):
        with (
            only(trial.model, parameters),
            stepping(parameters, expression, rates, rate=trial.rate),
        ):
            backward(trial.loss(trial.output()))
    with torch.no_grad():
        return float((trial.output() - first).norm(dim=-1).mean())


def test_complete_moves_as_far_at_every_depth_and_symmetric_does_not():
    grown = {
        closure: moved(closure, 32, STEPS) / moved(closure, 8, STEPS)
        for closure in ("symmetric", "complete")
    }
    assert grown["complete"] == pytest.approx(1, abs=0.05)
    assert grown["symmetric"] > 1.2


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["pre-ln", "branch-multiplier"])
def test_complete_moves_as_far_wherever_the_norm_stands(placement):
    far = [moved("complete", depth, STEPS, placement) for depth in (8, 64)]
    assert far[1] / far[0] == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_one_step_does_not_show_it():
    grown = moved("symmetric", 64, 1) / moved("symmetric", 8, 1)
    assert grown == pytest.approx(1, abs=0.2)
