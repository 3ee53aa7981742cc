r"""‖ΔF‖: how much one update changes the output of a stack, to first order, and several do.

.. math:: \frac{\Delta F}{\eta} = \frac{\partial F}{\partial\theta}\,\frac{\Delta\theta}{\eta}

is one derivative of the output along the step, exact at any depth and in any precision.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from deepnet_theory.laboratory.stepping import backward, only, stepping
from deepnet_theory.laboratory.trial import Case, Trial, draw_batch
from deepnet_theory.runtime import Description
from deepnet_theory.runtime.branches import math_attention

Chosen = Callable[[Description], bool]
Direction = tuple[nn.Parameter, Description, Tensor]
Inputs = tuple[Tensor | None, ...]
ALL = "all"  # of what is stepped: everything


def everything(_: Description) -> bool:
    return True


def directions_of(trial: Trial, chosen: Chosen = everything) -> list[Direction]:
    """The update of every chosen parameter that is stepped, per unit of the learning rate."""
    own = [(p, d) for p, d in trial.parameters() if chosen(d)]
    changes = trial.changes([p for p, _ in own])
    return [(p, d, changes[id(p)]) for p, d in own]


def _with_tangents(_: nn.Module, inputs: Inputs) -> Inputs:
    # an input without a tangent would have torch add a symbolic zero, by way of its compiler,
    # which a fresh process takes seconds to import
    return tuple(
        x
        if x is None or forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]
        else forward_ad.make_dual(x, torch.zeros_like(x))  # type: ignore[no-untyped-call]
        for x in inputs
    )


def change_along(trial: Trial, directions: Sequence[Direction]) -> Tensor:
    """The output's derivative along these steps: (k, batch, tokens, d)."""
    with ExitStack() as hooked:
        for residual in _moved(trial, directions):
            hooked.enter_context(residual.register_forward_pre_hook(_with_tangents))
        return _derivative(trial, directions)


def sizes_alone(trial: Trial, directions: Sequence[Direction]) -> Iterator[tuple[str, Tensor]]:
    """The mean over tokens of ‖ΔF‖/η by each sublayer's steps alone, in one pass: its part, (k,).

    Each stepped sublayer adds a copy of the batch to the stream, and steps in this copy alone.
    """
    steps, batch = {id(one[0]): one for one in directions}, trial.inputs[-1].shape[1]
    parts = list[str]()

    def level(residual: nn.Module, inputs: Inputs) -> Inputs:
        given = _with_tangents(residual, inputs)
        most = max(len(x[0]) for x in given if x is not None)
        return tuple(
            x if x is None else torch.cat([x, *[x[:, :batch]] * ((most - len(x[0])) // batch)], 1)
            for x in given
        )

    def fork(residual: nn.Module, inputs: Inputs, output: Tensor) -> Tensor:
        own = [steps[id(p)] for p in residual.parameters() if id(p) in steps]
        if not own:
            return output
        parts.append(own[0][1].part or "")
        with _stepped(trial, own):  # on the first copy, which has no step
            moved = residual.forward(*(x if x is None else x[:, :batch] for x in inputs))
        return torch.cat([output, moved], 1)

    with ExitStack() as hooked:
        for residual in _moved(trial, directions):
            hooked.enter_context(residual.register_forward_pre_hook(level))
            hooked.enter_context(residual.register_forward_hook(fork))
        copies = torch.stack(torch.split(_derivative(trial, ()), batch, 1))
    return zip(parts, copies[1:].norm(dim=-1).mean((2, 3)), strict=True)


def _moved(trial: Trial, directions: Sequence[Direction]) -> Iterable[nn.Module]:
    """The sublayers from the first stepped one on: below it nothing changes."""
    stepped = {id(p) for p, _, _ in directions}
    return itertools.dropwhile(
        lambda residual: stepped.isdisjoint(map(id, residual.parameters())),
        trial.model.residuals(),
    )


def _derivative(trial: Trial, directions: Sequence[Direction]) -> Tensor:
    with torch.no_grad(), forward_ad.dual_level(), math_attention():
        with _stepped(trial, directions):
            output = trial.output()
        change: Tensor = forward_ad.unpack_dual(output).tangent  # type: ignore[no-untyped-call]
    return change.double()


@contextmanager
def _stepped(trial: Trial, directions: Sequence[Direction]) -> Iterator[None]:
    """Within this context the parameters have their steps for tangents."""
    try:
        for p, _, step in directions:
            trial.put(p, forward_ad.make_dual(p.detach(), step))  # type: ignore[no-untyped-call]
        yield
    finally:
        for p, _, _ in directions:
            trial.put(p, p)


def size_along(trial: Trial, directions: Sequence[Direction]) -> tuple[float, ...]:
    """The mean over tokens of ‖ΔF‖/η along these steps, one a seed."""
    if not directions:
        return (0.0,) * trial.seeds
    return by_seed(change_along(trial, directions))


def by_seed(change: Tensor) -> tuple[float, ...]:
    """The mean over tokens of a change of F, of every seed."""
    return tuple(change.norm(dim=-1).flatten(1).mean(1).tolist())


Sizes = dict[str, tuple[float, ...]]  # by the name of what is stepped, one a seed


def mean_of(drawn: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """Each seed's mean over its draws."""
    return tuple(map(fmean, zip(*drawn, strict=True)))


def measure_model_update(
    case: Case, *, draws: int = 1, chosen: Chosen | None = None
) -> tuple[float, ...]:
    """‖ΔF‖/η per token of every seed, the mean of ``draws``; ``chosen`` restricts the step."""
    trials = (Trial(case, draws=[draw]) for draw in range(draws))
    return mean_of(size_along(one, directions_of(one, chosen or everything)) for one in trials)


def by_kind(directions: Iterable[Direction]) -> dict[str, list[Direction]]:
    """The steps of each kind of parameter of each part."""
    kinds: dict[str, list[Direction]] = {}
    for direction in directions:
        d = direction[1]
        kinds.setdefault(f"{d.part} {d.kind or 'final norm'} {d.name}", []).append(direction)
    return kinds


# ---- many updates ----

FRESH = 2**20  # draws of data from here on are those of later updates


def measure_updates(case: Case) -> Sizes:
    r"""Each seed's :math:`\|F_T - F_0\|` per token after T updates of the settings' ``eta``.

    On fresh data at every update; F on the first batch. NaN where it is not finite any more.
    """
    settings, trial, make = case.settings, Trial(case), stepping(case.selection.the_optimizer)
    first, parts = trial.batch, len(case.selection.the_stack.parts)
    with torch.no_grad():
        start = trial.output().double()
    # each model of the stack by itself: views of the same memory
    own = trial.parameters()
    views = [[nn.Parameter(one) for one in p.detach()] for p, _ in own]
    optimizers = [
        make(
            [
                {"params": [view], "lr": settings.eta * trial.rate(p)}
                for (p, _), view in zip(own, seed, strict=True)
            ],
            lr=settings.eta,
        )
        for seed in zip(*views, strict=True)
    ]
    for count in range(1, settings.updates + 1):
        with only(trial.model, [p for p, _ in own]):
            backward(trial.loss(trial.output()))
            for (p, _), seeds in zip(own, views, strict=True):
                assert p.grad is not None
                for view, gradient in zip(seeds, p.grad, strict=True):
                    view.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
        trial.see(draw_batch(settings, trial.seeds, parts, FRESH + count))
    trial.see(first)
    with torch.no_grad():
        return {several(settings.updates): by_seed(trial.output().double() - start)}


def several(updates: int) -> str:
    """The name of the size after several updates."""
    return f"{updates} updates"
