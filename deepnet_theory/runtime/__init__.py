"""Constants → ``torch.nn.Module``: a small model that people train with.

This room imports torch, the standard library and ``spec`` only.
"""

from deepnet_theory.runtime.branches import Cache, math_attention
from deepnet_theory.runtime.building import build, initialise_, load_constants, unstack
from deepnet_theory.runtime.description import Description, described
from deepnet_theory.runtime.groups import parameter_groups
from deepnet_theory.runtime.model import Model
from deepnet_theory.runtime.saving import load, save
from deepnet_theory.runtime.torch_layers import from_torch
from deepnet_theory.spec.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)

__all__ = [
    "Architecture",
    "Cache",
    "Constants",
    "Description",
    "Model",
    "PartConstants",
    "SublayerConstants",
    "build",
    "described",
    "from_torch",
    "initialise_",
    "load",
    "load_constants",
    "math_attention",
    "parameter_groups",
    "save",
    "unstack",
]
