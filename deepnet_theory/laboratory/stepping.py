"""Optimizer steps on stacked weights, a seed each: one update, one step, many steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.definitions.expression import Expression, fold
from deepnet_theory.definitions.optimizer import Optimizer, Reference, Running, optimizers
from deepnet_theory.definitions.outcome import MissingExtraError, Refusal
from deepnet_theory.models.update import UpdateAlgebra, update


def inner_product(a: Tensor, b: Tensor) -> Tensor:
    """Each seed's inner product of two parameters that lie alike in memory: (k, …) → (k,)."""
    if a.ndim == 3 and not a.is_contiguous():
        a, b = a.mT, b.mT  # flattened as they lie, without a copy
    product: Tensor = torch.linalg.vecdot(a.flatten(1), b.flatten(1))
    return product


def backward(losses: Tensor) -> None:
    """Send gradients back from a loss, or from the losses (k,) of seeds, which never meet."""
    losses.sum().backward()  # type: ignore[no-untyped-call]


def gradients(losses: Tensor, parameters: Sequence[nn.Parameter]) -> tuple[Tensor, ...]:
    """Each seed's gradient of its own loss, shaped as the parameters: (k, …) each."""
    return torch.autograd.grad(losses.sum(), parameters)


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


def stepping(
    parameters: Iterable[nn.Parameter],
    expression: Expression,
    eta: Tensor,
    observe: Callable[[nn.Parameter, Tensor, Tensor], None] = lambda *_: None,
    rate: Callable[[nn.Parameter], float] = lambda _: 1.0,
) -> AbstractContextManager[None]:
    """Within this context a backward pass steps each parameter as soon as its gradient is there.

    By the update at the seeds' rates ``eta`` (seeds,), times the parameter's ``rate``; ``observe``
    receives parameter, gradient and update before it is added.
    """

    def step(parameter: nn.Parameter, gradient: Tensor) -> None:
        change = update(expression, eta * rate(parameter), gradient, parameter.detach())
        observe(parameter, gradient, change)
        parameter.add_(change)

    return arriving(parameters, step)


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


class Trajectory:
    """Optimizer steps of stacked parameters, each seed by itself, with its running means.

    ``rates`` are each parameter's, a number or (k,). Within :meth:`stepping` a backward pass is one
    step; a gradient is freed when it has been taken.
    """

    def __init__(
        self, optimizer: Optimizer, rates: Iterable[tuple[nn.Parameter, Tensor | float]]
    ) -> None:
        self.running = running_of(optimizer)
        self.epsilon = optimizer.epsilon or 0.0
        self.rates = list(rates)
        self.steps = 0
        self._decays = {"m": self.running.first, "v": self.running.second}
        names = self._decays.keys() & self.running.expression.names
        self._state = {
            id(p): (rate, {name: torch.zeros_like(p) for name in names}) for p, rate in self.rates
        }

    @contextmanager
    def stepping(self, model: nn.Module) -> Iterator[None]:
        """Within this context a backward pass of ``model`` steps the parameters, and no others."""
        parameters = [p for p, _ in self.rates]
        with only(model, parameters), arriving(parameters, self._step):
            yield

    def _step(self, parameter: nn.Parameter, gradient: Tensor) -> None:
        rate, means = self._state[id(parameter)]
        algebra = UpdateAlgebra(rate, gradient, parameter.detach())
        algebra.values["epsilon"] = self.epsilon
        for name, kept in means.items():
            algebra.values[name] = self._mean(name, kept, gradient)
        parameter.add_(fold(self.running.expression.root, algebra))

    def _mean(self, name: str, kept: Tensor, gradient: Tensor) -> Tensor:
        """Take a gradient into a sum of decaying weights; the sum, or the mean it stands for."""
        decay = self._decays[name]
        kept.mul_(decay)
        if name == "v":
            kept.addcmul_(gradient, gradient)
        else:
            kept.add_(gradient)
            if self.running.summed:
                return kept
        return kept / sum(decay**s for s in range(self.steps))

    def step(self, losses: Tensor) -> None:
        self.steps += 1
        backward(losses)


class LibrarySteps:
    """A library's optimizer on every model of a stack by itself; as :class:`Trajectory`."""

    def __init__(
        self, make: Callable[..., torch.optim.Optimizer],
        rates: Iterable[tuple[nn.Parameter, float]],
    ) -> None:  # fmt: skip
        self.rates = list(rates)
        # its norms and factors are those of one model's matrices: views of the same memory
        self.views = [[nn.Parameter(one) for one in p.detach()] for p, _ in self.rates]
        rates_alone = [rate for _, rate in self.rates]
        self.optimizers = []
        for views in zip(*self.views, strict=True):  # of one model
            groups = [{"params": [v], "lr": r} for v, r in zip(views, rates_alone, strict=True)]
            self.optimizers.append(make(groups, lr=rates_alone[0]))

    def stepping(self, model: nn.Module) -> AbstractContextManager[None]:
        """Within this context gradients are computed for the parameters alone."""
        return only(model, [p for p, _ in self.rates])

    def step(self, losses: Tensor) -> None:
        backward(losses)
        for (parameter, _), views in zip(self.rates, self.views, strict=True):
            gradients, parameter.grad = parameter.grad, None
            assert gradients is not None
            for view, gradient in zip(views, gradients, strict=True):
                view.grad = gradient
        for optimizer in self.optimizers:
            optimizer.step()


def library_optimizer(reference: Reference) -> Callable[..., torch.optim.Optimizer]:
    """The reference's optimizer with its options; raises :class:`MissingExtraError`."""
    module, _, name = reference.target.partition(":")
    try:
        optimizer: Any = getattr(import_module(module), name)
    except ImportError:
        raise MissingExtraError(module.partition(".")[0], reference.requires or "verify") from None
    return partial(optimizer, **dict(reference.options))


def going(
    optimizer: Optimizer,
) -> Callable[[Iterable[tuple[nn.Parameter, float]]], Trajectory | LibrarySteps]:
    """What takes many steps of an optimizer, made of parameters and rates.

    By its expression, or by its library's. Raises :class:`Refusal` where neither goes on, and
    :class:`MissingExtraError`.
    """
    if optimizer.running is None and optimizer.reference is not None:
        return partial(LibrarySteps, library_optimizer(optimizer.reference))
    running_of(optimizer)
    return partial(Trajectory, optimizer)
