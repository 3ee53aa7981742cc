"""Many steps of the running expressions, beside the libraries' own optimizers."""

from dataclasses import replace

import pytest
import torch

from deepnet_theory.numeric.reference import library_optimizer
from deepnet_theory.numeric.stepping import Trajectory, UpdateAlgebra, running_of, update
from deepnet_theory.spec.errors import MissingExtraError, Refusal
from deepnet_theory.spec.expression import fold
from deepnet_theory.spec.optimizer import custom_optimizer, optimizer, optimizers

RUNNING = {name: o for name, o in optimizers().items() if o.running is not None}


class Stack(torch.nn.Module):
    """k linear maps, each with a loss of its own."""

    def __init__(self, weights):
        super().__init__()
        self.weight = torch.nn.Parameter(weights.clone())

    def losses(self, x, y):
        return ((x @ self.weight.mT).tanh() - y).square().sum((1, 2))


def data(step, seeds=3):
    generator = torch.Generator().manual_seed(step)
    x, y = torch.randn(2, seeds, 7, 5, generator=generator, dtype=torch.float64)
    return x, y


def stacked(o, weights, rates, steps):
    model = Stack(weights)
    trajectory = Trajectory(o, [(model.weight, rates)])
    with trajectory.stepping(model):
        for step in range(steps):
            trajectory.step(model.losses(*data(step)))
    return model.weight.detach()


def real(o, weight, rate, seed, steps):
    parameter = torch.nn.Parameter(weight.clone())
    library = library_optimizer(o.reference)([parameter], lr=rate)
    for step in range(steps):
        x, y = (one[seed] for one in data(step))
        library.zero_grad()
        ((x @ parameter.mT).tanh() - y).square().sum().backward()
        library.step()
    return parameter.detach()


def without_epsilon(o):
    """LAMB's library adds ε before it debiases: ε apart, the two must agree."""
    if o.name != "lamb":
        return o
    options = (*o.reference.options, ("eps", 1e-18))
    return replace(o, epsilon=1e-18, reference=replace(o.reference, options=options))


@pytest.mark.parametrize("name", [n for n, o in RUNNING.items() if o.reference is not None])
def test_twelve_steps_of_every_seed_are_the_librarys(name):
    o = without_epsilon(RUNNING[name])
    weights = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    rates = torch.tensor([0.01, 0.02, 0.005], dtype=torch.float64)
    ours = stacked(o, weights, rates, 12)
    for seed in range(3):
        try:
            theirs = real(o, weights[seed], float(rates[seed]), seed, 12)
        except MissingExtraError as missing:
            pytest.skip(str(missing))
        moved = (theirs - weights[seed]).norm()
        assert moved > 1e-5 and (ours[seed] - theirs).norm() < 1e-4 * moved


def test_a_wrong_running_mean_is_caught():
    """Planted: another decay moves the weights elsewhere, by far more than the tolerance."""
    weights = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    rates = torch.full((3,), 0.01, dtype=torch.float64)
    o = optimizer("adam")
    wrong = replace(o, running=replace(o.running, first=0.8))
    moved = stacked(o, weights, rates, 12) - weights
    assert (stacked(wrong, weights, rates, 12) - weights - moved).norm() > 0.01 * moved.norm()


@pytest.mark.parametrize("name", sorted(RUNNING))
def test_the_first_running_step_is_the_first_update(name):
    g, theta = torch.randn(2, 2, 4, 6, generator=torch.Generator().manual_seed(3))
    algebra = UpdateAlgebra(0.1, g, theta)
    algebra.values |= {"m": g, "v": g.square(), "epsilon": 1e-8}
    first = update(RUNNING[name].expression, 0.1, g, theta)
    torch.testing.assert_close(
        fold(RUNNING[name].running.expression.root, algebra), first, rtol=1e-3, atol=1e-6
    )


def test_polar_steps_turn_with_the_running_mean():
    weights = torch.eye(4, dtype=torch.float64).expand(3, 4, 4)
    o = optimizer("muon")
    model = Stack(torch.cat([weights, weights[:, :1]], 1).mT.contiguous())
    trajectory = Trajectory(o, [(model.weight, torch.full((3,), 0.1, dtype=torch.float64))])
    before = model.weight.detach().clone()
    x = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with trajectory.stepping(model):
        trajectory.step(model.losses(x, torch.zeros(3, 7, 4, dtype=torch.float64)))
    singular = torch.linalg.svdvals(model.weight.detach() - before)
    torch.testing.assert_close(singular, torch.full_like(singular, 0.1))


def test_an_optimizer_with_a_first_step_alone_is_refused():
    with pytest.raises(Refusal, match=r"'lion'.*first step alone.*adam"):
        running_of(optimizer("lion"))
    assert running_of(custom_optimizer("-eta*norm(theta)*sign(g)")).update
