"""Constants → ``torch.nn.Module``: a small model that people train with.

This room imports torch, the standard library and ``definitions`` only.
"""

from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.runtime.branches import Cache, Context, math_attention
from deepnet_theory.runtime.building import (
    build,
    from_torch,
    initialise_,
    load,
    load_constants,
    save,
    schema,
    start_head_,
    unstack,
)
from deepnet_theory.runtime.linear import Description, described
from deepnet_theory.runtime.model import Model

__all__ = [
    "Architecture", "Cache", "Constants", "Context", "Description", "Model",
    "PartConstants", "SublayerConstants", "build", "described", "from_torch",
    "initialise_", "load", "load_constants", "math_attention", "save",
    "schema", "start_head_", "unstack",
]  # fmt: skip
