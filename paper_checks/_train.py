"""Short training of stacked seeds on fresh windows of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from deepnet_theory.numeric.stacks.data import text_windows
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.numeric.stacks.trial import MATRICES, Trial, generator_for
from deepnet_theory.spec.sublayer import Role
from paper_checks._stack import Net

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
}


def train(
    net: Net,
    depth: int,
    s: Settings,
    rate: float,
    steps: int,
    watch: Callable[[int, Trial], Any] | None = None,
    roles: Iterable[Role] = MATRICES,
) -> torch.Tensor:
    """The losses (steps, seeds) of all seeds at once; ``watch`` sees the model before each step.

    SGD and Adam act entry by entry, so a stack of seeds is trained as each seed would be. The
    data are the same for every network and rate.
    """
    trial = net.trial(depth, s)
    generator = generator_for(s.seed, "training data")
    parameters = [p for p, _ in trial.parameters(roles)]
    for p in parameters:
        p.requires_grad_(True)
    optimizer = OPTIMIZERS[net.optimizer](parameters, lr=rate)
    losses = []
    for step in range(steps):
        windows = text_windows(trial.seeds * s.batch, s.tokens + 1, generator)
        windows = windows.reshape(trial.seeds, s.batch, -1)
        with torch.no_grad():
            trial.inputs = [trial.model.embed(windows[..., :-1])]
            trial.batch.targets.copy_(windows[..., 1:])
        if watch is not None:
            watch(step, trial)
        optimizer.zero_grad(set_to_none=True)
        loss = trial.loss(trial.output())
        loss.sum().backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return torch.stack(losses)
