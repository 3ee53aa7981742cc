"""What a parameter is: said where it is made, and never guessed from its name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import nn

from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.sublayer import Role


@dataclass(frozen=True)
class Site:
    """Where a parameter stands; None where the question makes no sense (an embedding's layer)."""

    part: str | None = None
    layer: int | None = None
    sublayer: int | None = None  # its index within the layer
    kind: str | None = None  # "attention", "cross", "ffn", "ffn-swiglu"


@dataclass(frozen=True)
class Description(Site):
    r"""The role and place of one parameter, and its initial law.

    A matrix is drawn from :math:`\mathcal N(0, \mathrm{gain}^2\cdot 2/(\text{fan\_in} +
    \text{fan\_out}))`; a vector, which has no fans, is filled with ``gain``.
    """

    role: Role = Role.SCALED
    name: str = ""  # the spec's name of the matrix or vector: "query", "fc1_bias", "gain"
    gain: float = 1.0
    fan_in: int | None = None
    fan_out: int | None = None

    @property
    def is_matrix(self) -> bool:
        """Whether the parameter is a matrix (drawn) or a vector (filled)."""
        return self.fan_in is not None

    @property
    def std(self) -> float:
        """Xavier's standard deviation times the gain; 0 for a vector."""
        if self.fan_in is None or self.fan_out is None:
            return 0.0
        return self.gain * math.sqrt(2.0 / (self.fan_in + self.fan_out))


class Described(nn.Module):
    """A module that describes the parameters it owns, by attribute name.

    The description is kept on the module and not on the tensor, because copying, sharding and
    compiling replace tensors and leave modules in place.
    """

    descriptions: dict[str, Description]

    def __init__(self) -> None:
        super().__init__()
        self.descriptions = {}


OF_FOREIGN = "_deepnet_theory"  # on the modules of a model that was not built here


def describe_(
    model: nn.Module,
    found: Mapping[str, tuple[Description, ...]],
    constants: Constants,
    drawn: bool,
) -> None:
    """Keep what each parameter of somebody's model is, on the module that owns it.

    ``drawn`` says whether its weights were drawn at the constants.
    """
    for module in model.modules():
        module.__dict__.pop(OF_FOREIGN, None)
    for name, own in found.items():
        path, _, attribute = name.rpartition(".")
        module = model.get_submodule(path)
        module.__dict__.setdefault(OF_FOREIGN, {})[attribute] = own
    model.__dict__.setdefault(OF_FOREIGN, {})[""] = (constants, drawn)


def mark_of(model: nn.Module) -> tuple[Constants, bool] | None:
    """The constants that somebody's model, wrapped or not, has, and whether it was drawn so."""
    found = (module.__dict__.get(OF_FOREIGN, {}).get("") for module in model.modules())
    return next((mark for mark in found if mark is not None), None)


def described(model: nn.Module) -> Iterator[tuple[nn.Parameter, Description]]:
    """Every parameter of ``model`` once, with its description, in the order of drawing."""
    for parameter, own in described_blocks(model):
        yield parameter, own[0]


def described_blocks(
    model: nn.Module,
) -> Iterator[tuple[nn.Parameter, tuple[Description, ...]]]:
    """Every parameter of ``model`` once, with the descriptions of the blocks packed in it."""
    seen: set[int] = set()
    for module in model.modules():
        own: dict[str, tuple[Description, ...]] = {}
        if isinstance(module, Described):
            own = {attribute: (d,) for attribute, d in module.descriptions.items()}
        else:
            own = {a: d for a, d in module.__dict__.get(OF_FOREIGN, {}).items() if a}
        for attribute, descriptions in own.items():
            parameter = module.get_parameter(attribute)
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield parameter, descriptions
