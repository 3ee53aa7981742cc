"""Many steps: the optimizer's running expression on stacked weights, fused into backward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from deepnet_theory.numeric.stepping.step import only
from deepnet_theory.numeric.stepping.update import UpdateAlgebra
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.expression import fold
from deepnet_theory.spec.optimizer import Optimizer, Running, optimizers


def running_of(optimizer: Optimizer) -> Running:
    """How the optimizer goes on; raises :class:`Refusal` where only its first step is known."""
    if optimizer.running is not None:
        return optimizer.running
    raise Refusal(
        f"{optimizer.name!r} is known here by its first step alone; many steps can be taken with: "
        + ", ".join(name for name, o in optimizers().items() if o.running is not None)
    )


class Trajectory:
    """Optimizer steps of stacked parameters, each seed by itself, with its running means.

    ``rates`` gives each parameter's learning rates, a number or (k,), one a seed. Within
    :meth:`stepping` every backward pass is one step: a parameter is stepped as soon as its
    gradient is there, and the gradient is freed.
    """

    def __init__(
        self, optimizer: Optimizer, rates: Iterable[tuple[nn.Parameter, Tensor | float]]
    ) -> None:
        self.running = running_of(optimizer)
        self.epsilon = optimizer.epsilon or 0.0
        self.rates = list(rates)
        self.steps = 0
        names = self.running.expression.names
        self._means = {
            name: (decay, [torch.zeros_like(p) for p, _ in self.rates])
            for name, decay in (("m", self.running.first), ("v", self.running.second))
            if name in names
        }

    @contextmanager
    def stepping(self, model: nn.Module) -> Iterator[None]:
        """Within this context a backward pass of ``model`` steps the parameters, and no others."""
        with only(model, [p for p, _ in self.rates]):
            handles = [
                p.register_post_accumulate_grad_hook(self._hook(i))  # type: ignore[no-untyped-call]
                for i, (p, _) in enumerate(self.rates)
            ]
            try:
                yield
            finally:
                for handle in handles:
                    handle.remove()

    def _hook(self, index: int) -> Callable[[nn.Parameter], None]:
        rate = self.rates[index][1]
        expression = self.running.expression

        @torch.no_grad()
        def step(parameter: nn.Parameter) -> None:
            gradient = parameter.grad
            assert gradient is not None
            parameter.grad = None
            algebra = UpdateAlgebra(rate, gradient, parameter.detach())
            algebra.values["epsilon"] = self.epsilon
            for name, (decay, means) in self._means.items():
                algebra.values[name] = self._mean(name, decay, means[index], gradient)
            parameter.add_(fold(expression.root, algebra))

        return step

    def _mean(self, name: str, decay: float, kept: Tensor, gradient: Tensor) -> Tensor:
        """Take a gradient into a sum of decaying weights; the sum, or the mean it stands for."""
        kept.mul_(decay)
        if name == "v":
            kept.addcmul_(gradient, gradient)
        else:
            kept.add_(gradient)
            if self.running.summed:
                return kept
        return kept / sum(decay**s for s in range(self.steps))

    def step(self, losses: Tensor) -> None:
        """One step of every seed on its own loss (k,)."""
        self.steps += 1
        losses.sum().backward()  # type: ignore[no-untyped-call]
