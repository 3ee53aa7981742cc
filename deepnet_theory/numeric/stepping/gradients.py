"""From a loss to gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def backward(losses: Tensor) -> None:
    """Send gradients back from a loss, or from the losses (k,) of seeds, which never meet.

    They arrive in each parameter's ``grad``, or in the hooks that wait there.
    """
    losses.sum().backward()  # type: ignore[no-untyped-call]


def gradients(losses: Tensor, parameters: Sequence[nn.Parameter]) -> tuple[Tensor, ...]:
    """Each seed's gradient of its own loss, shaped as the parameters: (k, …) each."""
    return torch.autograd.grad(losses.sum(), parameters)
