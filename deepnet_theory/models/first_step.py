"""The first step of an optimizer on somebody's model: a real optimizer, or an update expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import isclass, signature
from typing import Any

import torch
from torch import Tensor, nn

from deepnet_theory.models.factory import load_known_factory
from deepnet_theory.numeric.stepping import library_optimizer, update
from deepnet_theory.processes.identity import source_of
from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.optimizer import Optimizer, custom_optimizer
from deepnet_theory.spec.optimizer import optimizer as named

RATE = 2.0**-10  # where the caller sets none: the laboratory's first learning rate

Stepped = list[tuple[str, nn.Parameter, Tensor]]  # name, parameter, and its change


@dataclass(frozen=True)
class FirstStep:
    """What steps a model: ``make`` gives an optimizer of it, else ``update`` is interpreted."""

    name: str
    make: Callable[[nn.Module], torch.optim.Optimizer] | None = None
    update: Optimizer | None = None
    code: str | None = ""  # a digest of what is the caller's own, None where it is not known

    def of(self, model: nn.Module) -> tuple[Stepped, float]:
        """The change of every parameter that moves, from its gradient, and the learning rate.

        The learning rate is the optimizer's own default one; groups may have others. The model is
        left as it is.
        """
        moving = [(n, p) for n, p in model.named_parameters() if p.grad is not None]
        if self.make is None:
            assert self.update is not None
            return [(n, p, self._expressed(p)) for n, p in moving], RATE
        before = [p.detach().clone() for _, p in moving]
        optimizer = self.make(model)
        try:
            optimizer.step()
        except TypeError:  # LBFGS asks for the loss again and again
            raise InputError(f"{type(optimizer).__name__} has no step of one gradient") from None
        changes = []
        with torch.no_grad():
            for (_, p), old in zip(moving, before, strict=True):
                changes.append(p - old)
                p.copy_(old)
        stepped = [(n, p, c) for (n, p), c in zip(moving, changes, strict=True)]
        return stepped, _rate(optimizer)

    def going(self, model: nn.Module, eta: float | None) -> Callable[[], object]:
        """What takes one step after another of a model that has gradients, at a learning rate.

        Without ``eta`` it is the optimizer's own; else all groups keep their ratios to it.
        """
        if self.make is not None:
            optimizer = self.make(model)
            if eta is not None:
                times = eta / _rate(optimizer)
                for group in optimizer.param_groups:
                    group["lr"] *= times
            return optimizer.step
        assert self.update is not None
        running = self.update.running
        if running is None or {"m", "v"} & running.expression.names:
            raise InputError(
                f"{self.name} goes on from running means, and no library's optimizer stands for "
                "it here: give FILE.py:FUNCTION, which gives a model's optimizer"
            )

        @torch.no_grad()
        def step() -> None:
            for p in model.parameters():
                if p.grad is not None:
                    p.add_(self._expressed(p, RATE if eta is None else eta))

        return step

    def _expressed(self, p: nn.Parameter, rate: float = RATE) -> Tensor:
        assert self.update is not None and p.grad is not None
        # (1, out, in): one seed; the axes of a convolution's input are one
        shape = (1, *p.shape[:1], -1) if p.dim() > 2 else (1, *(p.shape or (1,)))
        g, theta = p.grad.reshape(shape), p.detach().reshape(shape)
        return update(self.update.expression, rate, g, theta).reshape(p.shape).clone()


def _rate(optimizer: torch.optim.Optimizer) -> float:
    """The optimizer's own default learning rate."""
    rate = float(optimizer.defaults.get("lr", optimizer.param_groups[0].get("lr", 0)))
    if not rate > 0:
        raise InputError(f"{type(optimizer).__name__} has no learning rate above 0")
    return rate


def first_step(optimizer: object, expression: str | None = None) -> FirstStep:
    """What ``optimizer`` stands for, or an update of one's own in eta, g and theta.

    An optimizer is a name of ours (its library's optimizer where there is one), a class of
    ``torch.optim`` or one like it, an optimizer of another model whose settings are meant, or a
    function that receives a model and gives its optimizer, or ``FILE.py:FUNCTION``, its name.
    Raises :class:`InputError` for anything else.
    """
    if (optimizer is None) == (expression is None):
        raise InputError("give exactly one of optimizer and update")
    if expression is not None:
        return FirstStep(expression, update=custom_optimizer(expression))
    if isinstance(optimizer, str) and ":" in optimizer:
        own = load_known_factory(optimizer)
        name = getattr(own.function, "__name__", own.name)
        return FirstStep(name, partial(_of_function, own), code=own.code)
    if isinstance(optimizer, str):
        ours = named(optimizer)
        if ours.reference is None:
            return FirstStep(ours.name, update=ours)
        return FirstStep(ours.name, partial(_of_class, library_optimizer(ours.reference), RATE))
    kind = optimizer.func if isinstance(optimizer, partial) else optimizer
    code = source_of(type(optimizer) if isinstance(optimizer, torch.optim.Optimizer) else optimizer)
    if isinstance(optimizer, torch.optim.Optimizer):
        if len(optimizer.param_groups) > 1:
            raise InputError(
                f"this {type(optimizer).__name__} has groups of its own model's parameters: give a "
                "function that receives a model and gives its optimizer"
            )
        takes = signature(type(optimizer)).parameters
        options = {name: value for name, value in optimizer.defaults.items() if name in takes}
        make = partial(_of_class, partial(type(optimizer), **options), options["lr"])
        return FirstStep(type(optimizer).__name__, make, code=code)
    if isclass(kind) and issubclass(kind, torch.optim.Optimizer):
        rate = optimizer.keywords.get("lr", RATE) if isinstance(optimizer, partial) else RATE
        return FirstStep(kind.__name__, partial(_of_class, optimizer, rate), code=code)
    if callable(optimizer):
        name = getattr(optimizer, "__name__", "own")
        return FirstStep(name, partial(_of_function, optimizer), code=code)
    raise InputError(
        f"{shown(optimizer)} is no optimizer: give a name, a class of torch.optim, or a function "
        "that receives a model and gives its optimizer"
    )


def _of_class(kind: Any, rate: float, model: nn.Module) -> torch.optim.Optimizer:
    made: torch.optim.Optimizer = kind(
        [p for p in model.parameters() if p.grad is not None], lr=rate
    )
    return made


def _of_function(function: Callable[[nn.Module], Any], model: nn.Module) -> torch.optim.Optimizer:
    made = function(model)
    if not isinstance(made, torch.optim.Optimizer):
        raise InputError(f"the function gave {shown(made)} in place of a model's optimizer")
    return made
