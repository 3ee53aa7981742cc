"""One optimizer step fused into the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from deepnet_theory.numeric.stepping.update import update
from deepnet_theory.spec.expression import Expression

Observer = Callable[[nn.Parameter, Tensor, Tensor], None]


@contextmanager
def stepping(
    parameters: Iterable[nn.Parameter],
    expression: Expression,
    eta: Tensor,
    observe: Observer | None = None,
    rate: Callable[[nn.Parameter], float] = lambda _: 1.0,
) -> Iterator[None]:
    """Within this context a backward pass steps each parameter as soon as its gradient is there.

    The update is evaluated per seed with the learning rates ``eta`` (seeds,) and added in
    place; the gradient is freed at once, so that no second copy of the parameters lives.
    ``rate`` multiplies the learning rate of a parameter. ``observe`` receives each parameter, its
    gradient and its update, before it is added.
    """

    @torch.no_grad()
    def hook(parameter: nn.Parameter) -> None:
        gradient = parameter.grad
        assert gradient is not None
        change = update(expression, eta * rate(parameter), gradient, parameter.detach())
        if observe is not None:
            observe(parameter, gradient, change)
        parameter.grad = None
        parameter.add_(change)

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
