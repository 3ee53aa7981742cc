"""Optimizer steps on stacked weights, a seed each: one update, one step, many steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.optimizer import Optimizer, Running, optimizers
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

    handles = [
        p.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        for p in parameters
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


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


def running_of(optimizer: Optimizer) -> Running:
    """How the optimizer goes on; raises :class:`Refusal` where only its first step is known."""
    if optimizer.running is not None:
        return optimizer.running
    raise Refusal(
        f"{optimizer.name!r} is known here by its first step alone; many steps can be taken with: "
        + ", ".join(name for name, o in optimizers().items() if o.running or o.reference)
    )


class Expressed(torch.optim.Optimizer):
    """Steps by the expression of an update, each parameter by itself at its group's rate.

    By that of the first step again and again, or with ``running`` means as the optimizer goes on.
    """

    def __init__(
        self, params: Any, update: Optimizer, lr: float = RATE, running: bool = False
    ) -> None:
        super().__init__(params, {"lr": lr})
        self.epsilon = update.epsilon or 0.0
        self.running = running_of(update) if running else None
        self.expression = update.expression if self.running is None else self.running.expression

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, theta = map(of_one_seed, (p.grad, p.detach()))
                change = update(self.expression, group["lr"], g, theta, **self._means(p, g))
                p.add_(change.reshape(p.shape))

    def _means(self, p: nn.Parameter, g: Tensor) -> dict[str, Any]:
        """The means of a parameter's gradients, this one taken in, and the optimizer's epsilon."""
        running, values = self.running, dict[str, Any]()
        if running is None:
            return values
        state = self.state[p]
        steps = state["steps"] = state.get("steps", 0) + 1
        for name, decay, new in (("m", running.first, g), ("v", running.second, g * g)):
            if name in running.expression.names:
                kept = state[name] = decay * state.get(name, 0.0) + new
                weights = 1.0 if running.summed else sum(decay**s for s in range(steps))
                values[name] = kept / weights
        return {**values, "epsilon": self.epsilon}


def going(optimizer: Optimizer) -> Callable[..., torch.optim.Optimizer]:
    """What takes many steps of an optimizer, made of parameters, or groups of them, and ``lr``.

    By its expression, or by its library's. Raises :class:`Refusal` where neither goes on, and
    :class:`MissingExtraError`.
    """
    if optimizer.running is None and optimizer.reference is not None:
        return library_optimizer(optimizer.reference)
    running_of(optimizer)
    return partial(Expressed, update=optimizer, running=True)
