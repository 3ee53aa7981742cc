"""Small constants, for the tests of the builder and of models that take them."""

from __future__ import annotations

import pytest

from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.definitions.placement import placements


def make_constants(
    stack="encoder",
    placement="post-ln",
    norm="layer",
    layers=3,
    alpha=1.7,
    beta=0.6,
    ffn="ffn",
    attention="attention",
    multipliers=None,
    **architecture,
):
    own = placements().get(placement)
    alpha = alpha if own is None or "alpha" in own.expression.names else 1.0

    def layer(*kinds):
        return tuple(SublayerConstants(kind, alpha, beta) for kind in kinds)

    m = multipliers or {}
    encoder = PartConstants("encoder", layers, False, layer(attention, ffn), m)
    parts: tuple[PartConstants, ...]
    if stack == "encoder":
        parts = (encoder,)
    elif stack == "decoder":
        parts = (PartConstants("decoder", layers, True, layer(attention, ffn), m),)
    else:
        decoder = PartConstants("decoder", layers, True, layer(attention, "cross", ffn), m)
        parts = (encoder, decoder)
    sizes = {"width": 16, "heads": 4, "vocab": 50, **architecture}
    return Constants(stack, placement, norm, parts, Architecture(**sizes))


@pytest.fixture(scope="session")
def constants():
    return make_constants
