"""Small constants for the runtime's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from deepnet_theory.spec.constants import Architecture, Constants, PartConstants, SublayerConstants

torch.set_num_threads(1)


def make_constants(
    stack: str = "encoder",
    placement: str = "post-ln",
    norm: str = "layer",
    layers: int = 3,
    alpha: float = 1.7,
    beta: float = 0.6,
    ffn: str = "ffn",
    multipliers: dict[str, float] | None = None,
    **architecture: object,
) -> Constants:
    alpha = 1.0 if placement == "pre-ln" else alpha

    def layer(*kinds: str) -> tuple[SublayerConstants, ...]:
        return tuple(SublayerConstants(kind, alpha, beta) for kind in kinds)

    m = multipliers or {}
    encoder = PartConstants("encoder", layers, False, layer("attention", ffn), m)
    parts: tuple[PartConstants, ...]
    if stack == "encoder":
        parts = (encoder,)
    elif stack == "decoder":
        parts = (PartConstants("decoder", layers, True, layer("attention", ffn), m),)
    else:
        decoder = PartConstants("decoder", layers, True, layer("attention", "cross", ffn), m)
        parts = (encoder, decoder)
    sizes = {"width": 16, "heads": 4, "vocab": 50, **architecture}
    return Constants(stack, placement, norm, parts, Architecture(**sizes))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def constants() -> Callable[..., Constants]:
    return make_constants
