"""A plain training loop on real text, without warm-up."""

from __future__ import annotations

import torch
from torch.nn import functional

from deepnet_theory.numeric.data import text_windows
from deepnet_theory.runtime import build
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


def train(
    constants: Constants,
    steps: int,
    rate: float,
    *,
    seed: int = 0,
    batch: int = 8,
    tokens: int = 32,
    optimizer: str = "adam",
    text: torch.Tensor | None = None,
    start: torch.nn.Module | None = None,
) -> tuple[list[float], torch.nn.Module]:
    """The loss of every step (next byte, mean over tokens) and the trained model."""
    model = start or build(constants, generator=torch.Generator().manual_seed(seed))
    data = torch.Generator().manual_seed(seed + 1)
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer]
    stepper = kind(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        windows = (
            text_windows(batch, tokens + 1, data)
            if text is None
            else text[
                torch.randint(len(text) - tokens, (batch, 1), generator=data)
                + torch.arange(tokens + 1)
            ]
        )
        logits = model(windows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        stepper.zero_grad(set_to_none=True)
        loss.backward()
        stepper.step()
        losses.append(float(loss.detach()))
    return losses, model
