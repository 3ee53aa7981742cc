"""The optimizer's real implementation, against which its expression is checked."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import torch
from torch import nn

from deepnet_theory.spec.errors import MissingExtraError
from deepnet_theory.spec.optimizer import Reference


def real_optimizer(
    reference: Reference, parameters: Iterable[nn.Parameter], learning_rate: float
) -> torch.optim.Optimizer:
    """The library's optimizer on the parameters of a single seed, (1, …) each.

    Its norms and factors are meant for one model's matrices, so it is given each parameter
    without the seed axis: a view of the same memory, with the gradient's view beside it.
    Raises :class:`MissingExtraError` where its library is not installed.
    """
    module, _, name = reference.target.partition(":")
    try:
        optimizer: Any = getattr(import_module(module), name)
    except ImportError:
        raise MissingExtraError(module.partition(".")[0], reference.requires or "verify") from None
    single = []
    for parameter in parameters:
        if parameter.shape[0] != 1 or parameter.grad is None:
            raise ValueError("a real optimizer steps one seed whose gradients are there")
        view = nn.Parameter(parameter.detach()[0])
        view.grad = parameter.grad[0]
        single.append(view)
    built: torch.optim.Optimizer = optimizer(single, lr=learning_rate, **dict(reference.options))
    return built
