"""Small constants, for the tests of the builder and of models that take them."""

import pytest

from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.definitions.placement import PLACEMENTS
from deepnet_theory.definitions.selection import stack as the_stack


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
    own = PLACEMENTS.get(placement)
    alpha = alpha if own is None or "alpha" in own.expression.names else 1.0
    kinds = {"attention": attention, "ffn": ffn}
    parts = [
        PartConstants(
            part.name,
            layers,
            part.causal,
            tuple(SublayerConstants(kinds.get(s.name, s.name), alpha, beta) for s in part.layer),
            multipliers or {},
        )
        for part in the_stack(stack).parts
    ]
    sizes = {"width": 16, "heads": 4, "vocab": 50, **architecture}
    return Constants(stack, placement, norm, tuple(parts), Architecture(**sizes))


@pytest.fixture(scope="session")
def constants():
    return make_constants
