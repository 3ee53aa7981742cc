"""Constants → ``torch.nn.Module``: a small model that people train with.

This room imports torch, the standard library and ``definitions`` only.
"""

from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.runtime.branches import math_attention
from deepnet_theory.runtime.building import (
    build,
    initialise_,
    load_constants,
    schema,
    start_head_,
)
from deepnet_theory.runtime.linear import Description, described
from deepnet_theory.runtime.model import Model

__all__ = [
    "Architecture", "Constants", "Description", "Model",
    "PartConstants", "SublayerConstants", "build", "described",
    "initialise_", "load_constants", "math_attention",
    "schema", "start_head_",
]  # fmt: skip
