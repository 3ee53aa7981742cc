"""Optimizer steps on stacked weights, a seed each: one update, one step, many steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.optimizer import OPTIMIZERS, Optimizer
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.models.step import library_optimizer, of_one_seed, update

RATE = 2.0**-10  # where the caller sets none


def backward(losses: Tensor) -> None:
    """Send gradients back from a loss, or from the losses (k,) of seeds, which never meet."""
    losses.sum().backward()  # type: ignore[no-untyped-call]


@contextmanager
def arriving(
    parameters: Iterable[nn.Parameter], take: Callable[[nn.Parameter, Tensor], None]
) -> Iterator[None]:
    """Within it ``take`` receives each parameter's gradient when it is there; it is freed then."""

    @torch.no_grad()
    def hook(parameter: nn.Parameter) -> None:
        gradient, parameter.grad = parameter.grad, None
        assert gradient is not None
        take(parameter, gradient)

    with ExitStack() as hooked:
        for p in parameters:
            handle = p.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
            hooked.enter_context(handle)
        yield


@contextmanager
def only(model: nn.Module, parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Within this context gradients are computed for ``parameters`` alone."""
    wanted = {id(p) for p in parameters}
    before = [(p, p.requires_grad) for p in model.parameters()]
    try:
        for p, _ in before:
            p.requires_grad_(id(p) in wanted)
        yield
    finally:
        for p, required in before:
            p.requires_grad_(required)
            p.grad = None


class Expressed(torch.optim.Optimizer):
    """Evaluates the expression of an update, each parameter by itself at its group's rate.

    The second one raises :class:`Refusal` where an optimizer is known by its first step alone.
    """

    def __init__(self, params: Any, update: Optimizer, lr: float = RATE) -> None:
        super().__init__(params, {"lr": lr})
        self.update = update

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                sums = self.state[p]
                sums["g"] = p.grad + (self._momentum * sums["g"] if sums else 0.0)
                g, theta = map(of_one_seed, (sums["g"], p.detach()))
                p.add_(update(self.update.expression, group["lr"], g, theta).reshape(p.shape))

    @property
    def _momentum(self) -> float:
        if self.update.momentum is None:
            several = (name for name, o in OPTIMIZERS.items() if o.reference or o.momentum)
            raise Refusal(
                f"{self.update.name!r} is known here by its first step alone; many steps can be "
                f"taken with: {', '.join(several)}"
            )
        return self.update.momentum


def stepping(optimizer: Optimizer) -> Callable[..., torch.optim.Optimizer]:
    """What takes the steps of an optimizer, made of parameters, or groups of them, and ``lr``.

    Its library's, or those of its expression. Raises :class:`MissingExtraError`.
    """
    if optimizer.reference is not None:
        return library_optimizer(optimizer.reference)
    return partial(Expressed, update=optimizer)
