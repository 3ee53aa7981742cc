"""One sublayer by itself: draws of §5.1 of the layer cake, and built attention, scores fixed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from paper_checks.shared.later import torch

if TYPE_CHECKING:
    from torch import Generator, Tensor


def feed_forward(
    source: Generator, draws: int, d: int, m: int, v: float, w: float
) -> tuple[Tensor, Tensor]:
    """W (draws, d, m) of variance 2w²/d and V (draws, m, d) of variance v²/m, in float64."""
    W = w * math.sqrt(2 / d) * torch.randn(draws, d, m, generator=source, dtype=torch.float64)
    V = v * math.sqrt(1 / m) * torch.randn(draws, m, d, generator=source, dtype=torch.float64)
    return W, V


def normalised(source: Generator, *shape: int) -> Tensor:
    """Tokens of mean 0 and variance 1 over the last axis, in float64."""
    x = torch.randn(*shape, generator=source, dtype=torch.float64)
    x = x - x.mean(-1, keepdim=True)
    return x / x.square().mean(-1, keepdim=True).sqrt()


def head_weights(branch: Any, x: Tensor) -> Tensor:
    """The softmax of built attention at x: (k·batch, heads, tokens, tokens)."""
    q, k = branch.split(branch.query(x)), branch.split(branch.key(x))
    found: Tensor = (q @ k.mT / branch.head_width**0.5).softmax(-1)
    return found


def averaged(branch: Any, weights: Tensor, values: Tensor) -> Tensor:
    """The heads' averages of ``values``, (k, batch, tokens, d), side by side."""
    heads: Tensor = weights @ branch.split(values)
    return heads.transpose(1, 2).reshape(values.shape)


def moves(source: Generator, x: Tensor, way: str) -> Tensor:
    """A random change of the tokens of x, (k, batch, tokens, d): "independently" or "together"."""
    shape = (*x.shape[:-2], 1 if way == "together" else x.shape[-2], x.shape[-1])
    return torch.randn(shape, generator=source, dtype=x.dtype).expand(x.shape)
