"""The optimizer's real implementation, the check of its expression."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, TypedDict

import torch
from torch import nn

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.spec.errors import MissingExtraError
from deepnet_theory.spec.optimizer import Reference


def library_optimizer(reference: Reference) -> Callable[..., torch.optim.Optimizer]:
    """The reference's optimizer with its options; raises :class:`MissingExtraError`."""
    module, _, name = reference.target.partition(":")
    try:
        optimizer: Any = getattr(import_module(module), name)
    except ImportError:
        raise MissingExtraError(module.partition(".")[0], reference.requires or "verify") from None
    return partial(optimizer, **dict(reference.options))


class _Depth(TypedDict):
    depth: dict[str, int]
    eta: float


class RealStep(_Depth, total=False):
    """One seed's ‖ΔF‖/η by the expression and by the real optimizer, or why there is none."""

    skipped: str
    optimizer: str
    expression: float
    real: float
    difference: float
    deviation: float


def compare_with_real_step(case: Case, eta: float) -> RealStep:
    """Step one seed by the expression and by the real optimizer, and compare the two ‖ΔF‖.

    ``difference`` is of the sizes, ``deviation`` ‖ΔF − ΔF'‖/‖ΔF‖; without one the row says so.
    """
    row: RealStep = {"depth": dict(case.depth), "eta": eta}
    optimizer = case.selection.the_optimizer
    reference = optimizer.reference
    if reference is None:
        return {**row, "skipped": f"{optimizer.name!r} names no library optimizer"}
    row["optimizer"] = reference.target
    try:
        library = library_optimizer(reference)
    except MissingExtraError as missing:
        return {**row, "skipped": str(missing)}
    trial = Trial(case, seeds=1)
    parameters = [p for p, _ in trial.parameters()]
    first = trial.first_step(parameters, eta)
    ours = trial.moved(first.before, parameters, first.changes)
    # its norms and factors are those of one model's matrices, so it is given each parameter
    # without the seed axis: a view of the same memory
    groups = defaultdict[float, list[nn.Parameter]](list)
    for parameter, gradient in zip(parameters, first.gradients, strict=True):
        view = nn.Parameter(parameter.detach()[0])
        view.grad = gradient[0]
        groups[eta * trial.rate(parameter)].append(view)
    library([{"params": own, "lr": rate} for rate, own in groups.items()], lr=max(groups)).step()
    theirs = trial.moved(first.before, (), ())
    sizes = [change.norm(dim=-1).mean().item() / eta for change in (ours, theirs)]
    return {
        **row,
        "expression": sizes[0],
        "real": sizes[1],
        "difference": abs(sizes[1] - sizes[0]) / sizes[0] if sizes[0] else 0.0,
        "deviation": ((theirs - ours).norm() / ours.norm()).item() if sizes[0] else 0.0,
    }
