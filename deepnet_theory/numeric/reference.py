"""The optimizer's real implementation, the check of its expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any, TypedDict

import torch
from torch import nn

from deepnet_theory.numeric.case import Case
from deepnet_theory.numeric.stepping import backward, only, update
from deepnet_theory.numeric.trial import Trial
from deepnet_theory.spec.errors import MissingExtraError
from deepnet_theory.spec.optimizer import Reference


def real_optimizer(
    reference: Reference, parameters: Iterable[nn.Parameter], rates: Iterable[float]
) -> torch.optim.Optimizer:
    """The library's optimizer on the parameters of a single seed, (1, …), each at its own rate.

    Its norms and factors are meant for one model's matrices, so it is given each parameter
    without the seed axis: a view of the same memory, with the gradient's view beside it.
    Raises what :func:`library_optimizer` raises.
    """
    single: dict[float, list[nn.Parameter]] = {}
    for parameter, rate in zip(parameters, rates, strict=True):
        if parameter.shape[0] != 1 or parameter.grad is None:
            raise ValueError("a real optimizer steps one seed whose gradients are there")
        view = nn.Parameter(parameter.detach()[0])
        view.grad = parameter.grad[0]
        single.setdefault(rate, []).append(view)
    groups = [{"params": views, "lr": rate} for rate, views in single.items()]
    return library_optimizer(reference)(groups, lr=max(single))


def library_optimizer(reference: Reference) -> Callable[..., torch.optim.Optimizer]:
    """The library's own optimizer with the reference's options, to be given parameters and lr.

    Raises :class:`MissingExtraError` where its library is not installed.
    """
    module, _, name = reference.target.partition(":")
    try:
        optimizer: Any = getattr(import_module(module), name)
    except ImportError:
        raise MissingExtraError(module.partition(".")[0], reference.requires or "verify") from None
    return partial(optimizer, **dict(reference.options))


class _Step(TypedDict):
    depth: dict[str, int]
    eta: float


class RealStep(_Step, total=False):
    """One seed's ‖ΔF‖/η by the expression and by the real optimizer, or why there is none."""

    skipped: str
    optimizer: str
    expression: float
    real: float
    difference: float
    deviation: float


def compare_with_real_step(case: Case, eta: float) -> RealStep:
    """Step one seed by the expression and by the real optimizer, and compare the two ‖ΔF‖.

    ``difference`` is relative, of the two sizes; ``deviation`` is ‖ΔF − ΔF'‖/‖ΔF‖. Where the
    optimizer has no real implementation, or it is not installed, the row says so.
    """
    row: RealStep = {"depth": dict(case.depth), "eta": eta}
    selection = case.selection
    reference = selection.the_optimizer.reference
    if reference is None:
        return {**row, "skipped": f"{selection.the_optimizer.name!r} names no library optimizer"}
    row["optimizer"] = reference.target
    trial = Trial(case, seeds=1)
    parameters = [p for p, _ in trial.parameters()]
    with only(trial.model, parameters):
        before = trial.output()
        backward(trial.loss(before))
        before = before.detach()
        kept = [p.detach().clone() for p in parameters]
        expression = selection.the_optimizer.expression
        with torch.no_grad():
            for p in parameters:
                assert p.grad is not None
                p.add_(update(expression, eta * trial.rate(p), p.grad, p))
            ours = (trial.output() - before).double()
            for p, old in zip(parameters, kept, strict=True):
                p.copy_(old)
        try:
            optimizer = real_optimizer(
                reference, parameters, [eta * trial.rate(p) for p in parameters]
            )
        except MissingExtraError as missing:
            return {**row, "skipped": str(missing)}
        optimizer.step()
        with torch.no_grad():
            theirs = (trial.output() - before).double()
    sizes = [change.norm(dim=-1).mean().item() / eta for change in (ours, theirs)]
    return {
        **row,
        "expression": sizes[0],
        "real": sizes[1],
        "difference": abs(sizes[1] - sizes[0]) / sizes[0] if sizes[0] else 0.0,
        "deviation": ((theirs - ours).norm() / ours.norm()).item() if sizes[0] else 0.0,
    }
