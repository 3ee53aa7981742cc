"""Constants → ``torch.nn.Module``: a small model that people train with.

This room imports torch, the standard library and ``definitions`` only.
"""

from deepnet_theory.definitions.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.runtime.applying import Applied, apply_
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
from deepnet_theory.runtime.groups import guard, parameter_groups
from deepnet_theory.runtime.linear import Description, described
from deepnet_theory.runtime.model import Model

__all__ = [
    "Applied", "Architecture", "Cache", "Constants", "Context", "Description", "Model",
    "PartConstants", "SublayerConstants", "apply_", "build", "described", "from_torch",
    "guard", "initialise_", "load", "load_constants", "math_attention", "parameter_groups", "save",
    "schema", "start_head_", "unstack",
]  # fmt: skip
