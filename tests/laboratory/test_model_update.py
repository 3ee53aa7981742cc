"""‖ΔF‖ against its definition, plain loops and libraries; and what a measurement holds at once."""

import weakref
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from published_rules import SMALL, rule
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from deepnet_theory.definitions.measurement import Predictions
from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.model_update import (
    FRESH,
    measure_model_update,
    measure_updates,
)
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.trace import measure_draws
from deepnet_theory.laboratory.trial import Case, Trial, draw_batch
from deepnet_theory.laboratory.verify import STACKED, AtDepth, verify

EXACT = replace(SMALL, dtype="float64")
ADAM = Case(Selection(optimizer="adam"), rule("adam"), {"N": 4}, SMALL)


def by_a_small_step(case, eta=1e-6, chosen=lambda d: True):
    """‖F(θ + Δθ) − F(θ)‖/η per token, by the difference that the derivative is the limit of."""
    trial = Trial(case)
    own = [p for p, d in trial.parameters() if chosen(d)]
    before, changes = trial.output(), trial.changes(own)
    for p in own:
        p.add_(eta * changes[id(p)])
    return ((trial.output() - before).norm(dim=-1).flatten(1).mean(1) / eta).tolist()


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_the_derivative_is_what_a_small_step_moves(name):
    case = Case(Selection(optimizer=name), rule("adam"), {"N": 3}, EXACT)
    assert measure_model_update(case) == pytest.approx(by_a_small_step(case), rel=1e-3)


def test_a_share_is_what_its_parameters_move_alone():
    case = replace(ADAM, settings=EXACT)
    (found,) = measure_draws(case, [0], ("all", "encoder", "fc2", "unscaled"))
    assert found["all"] == found["encoder"] == measure_model_update(case)
    for name, chosen in {
        "fc2": lambda d: d.name == "fc2", "unscaled": lambda d: d.name in ("query", "key"),
    }.items():  # fmt: skip
        assert found[name] == pytest.approx(by_a_small_step(case, chosen=chosen), rel=1e-3)
    assert measure_draws(case, [0], ("nothing",)) == [{"nothing": (0.0,) * EXACT.seeds}]


def test_repeatable_bit_for_bit_and_the_mean_of_its_draws():
    many = measure_model_update(ADAM, draws=4)
    assert measure_model_update(ADAM, draws=4) == many
    other = replace(ADAM, settings=replace(SMALL, seed=1))
    assert measure_model_update(other) != measure_model_update(ADAM) != many
    drawn = [found["all"] for draw in range(4) for found in measure_draws(ADAM, [draw])]
    assert many == pytest.approx([fmean(one) for one in zip(*drawn, strict=True)])
    together = [found["all"] for found in measure_draws(ADAM, range(1, 4))]
    assert together == [pytest.approx(one, rel=1e-4) for one in drawn[1:]]


# ---- many updates ----

FIVE = replace(EXACT, seeds=2, updates=5, eta=0.01, draws=1)


def test_five_updates_are_those_of_the_library():
    case = replace(ADAM, depth={"N": 3}, settings=FIVE)
    found, trial = measure_updates(case), Trial(case)
    parameters = [p.requires_grad_(True) for p, _ in trial.parameters()]
    optimizer, start = torch.optim.Adam(parameters, lr=0.01), trial.output().detach()
    batches = [trial.batch, *(draw_batch(FIVE, 2, 1, FRESH + n) for n in range(1, 6))]
    for count in range(1, 6):
        optimizer.zero_grad()
        trial.loss(trial.output()).sum().backward()
        optimizer.step()
        trial.see(batches[count])
    trial.see(batches[0])
    moved = (trial.output() - start).norm(dim=-1).flatten(1).mean(1)
    assert found == {"5 updates": pytest.approx(moved.tolist(), rel=1e-5)}


def test_a_verification_has_an_exponent_after_several_updates_and_goes_on(cache):
    asked = (rule("adam"), Predictions(()), [{"N": 2}, {"N": 4}], FIVE)
    result = verify(ADAM.selection, *asked, cache=cache)
    assert [e.share for e in result.exponents] == ["all", "5 updates"]
    assert result.verdict is result.exponents[0].verdict
    assert verify(ADAM.selection, *asked, cache=cache).exponents == result.exponents
    with pytest.raises(Refusal, match="first step alone"):
        verify(Selection(optimizer="shampoo"), *asked)


class Held(TorchDispatchMode):
    """The most bytes of all tensors that are alive at once."""

    def __init__(self):
        super().__init__()
        self.alive, self.most = weakref.WeakSet(), 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        tensors = (one for one in tree_iter(made) if isinstance(one, torch.Tensor))
        self.alive.update(one.untyped_storage() for one in tensors)
        self.most = max(self.most, sum(storage.nbytes() for storage in self.alive))
        return made


def held(layers, names):
    settings = Settings(width=32, heads=2, tokens=4, seeds=2, device="cpu")
    case = replace(ADAM, depth={"N": layers}, settings=settings)
    parameters = sum(p.nbytes for p in Trial(case).model.parts.parameters())
    with Held() as memory:
        measure_draws(case, [0], names)
    return memory.most / parameters


NAMES = ("all", "query", "key", "value", "output", "fc1", "fc2")


@pytest.mark.parametrize("names", [("all",), NAMES], ids=["all", "each alone"])
def test_a_measurement_holds_weights_and_one_change(names):
    """Weights, their change, and of a part what is stepped alone: nothing a second time."""
    found = [held(layers, names) for layers in (4, 8)]
    assert found[1] < 1.05 * found[0] < 1.05 * 2.6
    assert found[0] > 1.9  # a change as large as the weights is there


@given(st.integers(1, 40), st.integers(2, 9), st.sampled_from([32, 64, 1024]), st.integers(1, 200))
def test_draws_share_a_stack_where_their_weights_are_few(draws, seeds, width, layers):
    settings = Settings(width=width, heads=2, draws=draws, seeds=seeds)
    at = AtDepth(replace(ADAM, depth={"N": layers}, settings=settings))
    stacks, one = at.stacks(), 12 * width**2 * layers * seeds
    assert [draw for stack in stacks for draw in stack] == [*range(draws)] and len(stacks[0]) == 1
    assert all(len(stack) == 1 or len(stack) * one <= STACKED for stack in stacks)
    assert all((len(stack) + 1) * one > STACKED for stack in stacks[1:-1])
