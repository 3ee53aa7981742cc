"""The output after many steps: beside the library's, and what a first balance does not tell."""

import pytest
import torch
from published_rules import rule

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.model_update import FRESH, counts, measure_updates
from deepnet_theory.numeric.settings import Settings
from deepnet_theory.numeric.stepping import backward, only, stepping
from deepnet_theory.numeric.trial import Trial, draw_batch
from deepnet_theory.numeric.verify import verify
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.results.measurement import Predictions
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.rule import solve_rule

FIVE = Settings(width=16, heads=2, tokens=8, seeds=2, dtype="float64", updates=5, eta=0.01, draws=1)


def test_the_output_is_looked_at_after_powers_of_two_and_at_the_end():
    assert [list(counts(n)) for n in (1, 2, 5, 8)] == [[], [2], [2, 4, 5], [2, 4, 8]]


def test_five_updates_are_those_of_the_library():
    case = Case(Selection(optimizer="adam"), rule("adam"), {"N": 3}, FIVE)
    found = measure_updates(case)
    trial = Trial(case)
    parameters = [p.requires_grad_(True) for p, _ in trial.parameters()]
    optimizer, start = torch.optim.Adam(parameters, lr=0.01), trial.output().detach()
    batches = [trial.batch, *(draw_batch(FIVE, 2, 1, FRESH + n) for n in range(1, 6))]
    for count in range(1, 6):
        optimizer.zero_grad()
        trial.loss(trial.output()).sum().backward()
        optimizer.step()
        if count in found:
            trial.see(batches[0])
            moved = (trial.output() - start).norm(dim=-1).flatten(1).mean(1)
            assert found[count] == pytest.approx(moved.tolist(), rel=1e-5)
        trial.see(batches[count])
    assert list(found) == [2, 4, 5]


def test_a_verification_has_an_exponent_for_each_number_of_updates_and_goes_on(cache):
    selection, depths = Selection(optimizer="adam"), [{"N": 2}, {"N": 4}]
    result = verify(selection, rule("adam"), Predictions(()), depths, FIVE, cache=cache)
    assert [e.share for e in result.exponents] == ["all", "2 updates", "4 updates", "5 updates"]
    assert result.verdict is result.exponents[0].verdict
    again = verify(selection, rule("adam"), Predictions(()), depths, FIVE, cache=cache)
    assert again.exponents == result.exponents
    with pytest.raises(Refusal, match="first step alone"):
        verify(Selection(optimizer="lion"), rule("adam"), Predictions(()), depths, FIVE)


SIZES = Settings(width=32, heads=2, tokens=16, seeds=2)
ETA, STEPS = 2.0**-11, 16


def moved(closure, depth, steps, placement="post-ln"):
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
    one_step = moved("symmetric", 64, 1) / moved("symmetric", 8, 1)
    assert one_step == pytest.approx(1, abs=0.2)  # which does not show it
