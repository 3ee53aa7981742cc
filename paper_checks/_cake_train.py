"""A plain training loop on real text, without warm-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from deepnet_theory.numeric.stacks.data import text_bytes, text_windows
from deepnet_theory.runtime import Model, build
from deepnet_theory.spec.constants import Architecture, Constants, PartConstants, SublayerConstants


def model_constants(
    layers: int, alpha: float, beta: float, width: int = 32, placement: str = "post-ln"
) -> Constants:
    """A causal byte-level decoder of ``layers`` layers."""
    kinds = tuple(SublayerConstants(k, alpha, beta) for k in ("attention", "ffn"))
    return Constants(
        stack="decoder",
        placement=placement,
        norm="layer",
        parts=(PartConstants("decoder", layers, True, kinds),),
        architecture=Architecture(width=width, heads=4, vocab=256),
    )


def deepnorm(layers: int, width: int = 32) -> Constants:
    """DeepNorm as published for a decoder-only stack of M layers."""
    return model_constants(layers, (2 * layers) ** 0.25, (8 * layers) ** -0.25, width)


def windows(
    steps: int,
    *,
    seed: int = 0,
    seeds: int = 1,
    batch: int = 8,
    tokens: int = 32,
    text: torch.Tensor | None = None,
) -> Iterator[torch.Tensor]:
    """The windows of every step, (seeds, batch, tokens + 1), of Python's documentation or text."""
    data = torch.Generator().manual_seed(seed + 1)
    for _ in range(steps):
        if text is None:
            drawn = text_windows(seeds * batch, tokens + 1, data)
        else:
            first = torch.randint(len(text) - tokens, (seeds * batch, 1), generator=data)
            drawn = text[first + torch.arange(tokens + 1)]
        yield drawn.reshape(seeds, batch, -1)


def train(
    constants: Constants,
    steps: int,
    rate: float,
    *,
    seed: int = 0,
    seeds: int = 1,
    start: Model | None = None,
    **other: Any,
) -> tuple[torch.Tensor, Model]:
    """The losses (steps, seeds) of next bytes under Adam, and the trained models of all seeds.

    Adam acts entry by entry, so a stack of seeds is trained as each seed would be. The windows
    and the first weights depend on ``seed`` alone: two placements are paired seed by seed.
    ``other`` goes to :func:`windows`.
    """
    model = start or build(constants, seeds=seeds, generator=torch.Generator().manual_seed(seed))
    stepper = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for drawn in windows(steps, seed=seed, seeds=seeds, **other):
        logits = model(drawn[..., :-1])
        loss = functional.cross_entropy(
            logits.flatten(0, -2), drawn[..., 1:].flatten(), reduction="none"
        )
        loss = loss.view(seeds, -1).mean(dim=1)
        stepper.zero_grad(set_to_none=True)
        loss.sum().backward()
        stepper.step()
        losses.append(loss.detach())
    return torch.stack(losses), model


def byte_losses(steps: int, **chosen: Any) -> torch.Tensor:
    """What the text's byte frequencies lose on the windows of :func:`train`: (steps, seeds).

    They ignore the input; paired window by window, so that it does not matter which were drawn.
    """
    share = torch.bincount(text_bytes(), minlength=256).double()
    surprise = -(share / share.sum()).log()
    return torch.stack(
        [surprise[drawn[..., 1:]].mean(dim=(1, 2)) for drawn in windows(steps, **chosen)]
    )


def ends(losses: torch.Tensor, count: int) -> np.ndarray:
    """The mean loss of every seed over the last ``count`` steps: (seeds,)."""
    return losses[-count:].mean(dim=0).double().numpy()
