"""How far several updates move the stack's output, at a learning rate that is no limit."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.trial import Trial, draw_batch
from deepnet_theory.numeric.stepping.trajectory import Trajectory

FRESH = 2**20  # draws of data from here on are those of later updates


def counts(updates: int) -> Iterator[int]:
    """The numbers of updates after which the output is looked at: 2, 4, 8, … and the last."""
    count = 2
    while count < updates:
        yield count
        count *= 2
    if updates > 1:
        yield updates


def measure_updates(case: Case) -> dict[int, list[float]]:
    r"""Each seed's :math:`\|F_T - F_0\|` per token after T updates of the settings' ``eta``.

    The optimizer goes on from its running means, on fresh data at every update; F is the output
    on the first batch. NaN where it is not finite any more.
    """
    settings, selection = case.settings, case.selection
    trial = Trial(case)
    rates = [(p, settings.eta * trial.rate(p)) for p, _ in trial.parameters()]
    trajectory = Trajectory(selection.the_optimizer, rates)
    first, parts = trial.batch, len(selection.the_stack.parts)
    with torch.no_grad():
        start = trial.output().double()
    found: dict[int, list[float]] = {}
    with trajectory.stepping(trial.model):
        for count in range(1, settings.updates + 1):
            trajectory.step(trial.loss(trial.output()))
            if count in counts(settings.updates):
                trial.see(first)
                with torch.no_grad():
                    change = trial.output().double() - start
                found[count] = change.norm(dim=-1).flatten(1).mean(1).tolist()
            trial.see(draw_batch(settings, trial.drawn, parts, FRESH + count))
    return found
