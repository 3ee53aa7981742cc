"""Parameters that say what they are, and the two maps that own them: a linear map and a norm.

Everything takes one model or a stack of k models ("seeds"): a stacked parameter has a leading
dimension k, and so have the activations; attention alone folds k into the batch. A verdict needs
many seeds of small models, where a loop over models spends its time in Python, and ``vmap`` over
modules gains little; with one forward pass for both, what was measured is what is built.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.sublayer import EPSILON, Norm, Role


@dataclass(frozen=True)
class Site:
    """Where a parameter stands; None where the question makes no sense (an embedding's layer)."""

    part: str | None = None
    layer: int | None = None
    sublayer: int | None = None  # its index within the layer
    kind: str | None = None  # a name of ``branches.KINDS``


@dataclass(frozen=True)
class Description(Site):
    r"""The role and place of one parameter, and its initial law.

    A matrix is drawn from :math:`\mathcal N(0, \mathrm{gain}^2\cdot 2/(\text{fan\_in} +
    \text{fan\_out}))`; a vector, which has no fans, is filled with ``gain``. ``times`` is what the
    forward pass multiplies it by, against what the rule does.
    """

    role: Role = Role.SCALED
    name: str = ""  # the spec's name of the matrix or vector: "query", "fc1_bias", "gain"
    gain: float = 1.0
    fan_in: int | None = None
    fan_out: int | None = None
    times: float = 1.0

    @property
    def is_matrix(self) -> bool:
        return self.fan_in is not None

    @property
    def std(self) -> float:
        """Xavier's standard deviation times the gain; 0 for a vector."""
        if self.fan_in is None or self.fan_out is None:
            return 0.0
        return self.gain * math.sqrt(2.0 / (self.fan_in + self.fan_out))


class Described(nn.Module):
    """A module that describes the parameters it owns, by attribute name.

    Not on the tensors: copying, sharding and compiling replace them, and leave modules in place.
    """

    descriptions: dict[str, Description]

    def own(
        self, attribute: str, parameter: nn.Parameter, site: Site, role: Role, name: str,
        gain: float = 1.0, fans: tuple[int, int] | tuple[None, None] = (None, None),
    ) -> nn.Parameter:  # fmt: skip
        """The parameter, described as this module's ``attribute``; ``fans`` are in and out."""
        place = site.part, site.layer, site.sublayer, site.kind
        described = Description(*place, role, name, gain, *fans)
        self.__dict__.setdefault("descriptions", {})[attribute] = described
        return parameter


OF_FOREIGN = "_deepnet_theory"  # on the modules of a model that was not built here
Blocks = tuple[Description, ...]
NORM_EPS = EPSILON


def describe_(
    model: nn.Module, parameters: Mapping[str, Blocks], constants: Constants, drawn: bool
) -> None:
    """Keep on its module what each parameter of a model is, and whether it was ``drawn`` so."""
    for module in model.modules():
        module.__dict__.pop(OF_FOREIGN, None)
    for name, blocks in parameters.items():
        path, _, attribute = name.rpartition(".")
        vars(model.get_submodule(path)).setdefault(OF_FOREIGN, {})[attribute] = blocks
    vars(model).setdefault(OF_FOREIGN, {})[""] = (constants, drawn)


def mark_of(model: nn.Module) -> tuple[Constants, bool] | None:
    marks = (module.__dict__.get(OF_FOREIGN, {}).get("") for module in model.modules())
    return next((mark for mark in marks if mark is not None), None)


def described(model: nn.Module) -> Iterator[tuple[nn.Parameter, Description]]:
    """Every parameter of ``model`` once, with its description, in the order of drawing."""
    return ((parameter, blocks[0]) for parameter, blocks in described_blocks(model).items())


def described_blocks(model: nn.Module) -> dict[nn.Parameter, Blocks]:
    """Every parameter of ``model``, with the descriptions of the blocks packed in it."""
    packed: dict[nn.Parameter, Blocks] = {}
    for module in model.modules():
        named = {a: (d,) for a, d in module.__dict__.get("descriptions", {}).items()}
        named |= {a: d for a, d in module.__dict__.get(OF_FOREIGN, {}).items() if a}
        for attribute, blocks in named.items():
            packed.setdefault(module.get_parameter(attribute), blocks)
    return packed


@dataclass(frozen=True)
class Make:
    """How parameters are made: for how many seeds, where, in what type, and which vectors."""

    seeds: int | None = None
    device: torch.device | None = None
    dtype: torch.dtype | None = None
    vectors: bool = True  # False: no vector exists; gains are 1 and biases 0 by their absence
    bias: bool = True

    def empty(self, *shape: int) -> nn.Parameter:
        """An uninitialised parameter, (k, *shape) for a stack of k seeds."""
        lead = () if self.seeds is None else (self.seeds,)
        try:
            made = torch.empty(*lead, *shape, device=self.device, dtype=self.dtype)
        except (RuntimeError, MemoryError):  # torch has no other error for too little memory
            size = " x ".join(map(str, (*lead, *shape)))
            raise InputError(f"there is no memory for a parameter of {size} numbers") from None
        return nn.Parameter(made)

    def weight(self, fan_out: int, fan_in: int) -> nn.Parameter:
        """An uninitialised weight (out, in), or (k, out, in) for a stack of k seeds.

        A stacked one lies as (k, in, out): so a batched product's gradient does, uncopied.
        """
        if self.seeds is None:
            return self.empty(fan_out, fan_in)
        return nn.Parameter(self.empty(fan_in, fan_out).detach().transpose(1, 2))


class Linear(Described):
    """y = x Wᵀ + b, the weight (out, in), or (k, out, in) for a stack of seeds."""

    bias: nn.Parameter | None

    def __init__(
        self, fan_in: int, fan_out: int, make: Make, site: Site, name: str, role: Role,
        gain: float = 1.0, bias: tuple[str, Role] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        weight = make.weight(fan_out, fan_in)
        self.weight = self.own("weight", weight, site, role, name, gain, (fan_in, fan_out))
        self.bias = None
        if bias is not None and make.vectors and make.bias:
            self.bias = self.own("bias", make.empty(fan_out), site, bias[1], bias[0], 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) → (…, out); with seeds (k, …, in) → (k, …, out)."""
        if self.weight.dim() == 2:
            return F.linear(x, self.weight, self.bias)
        rows = x.flatten(1, -2)  # (k, rows, in); of three dimensions it is x itself
        transposed = self.weight.transpose(1, 2)  # (k, in, out)
        if self.bias is None:
            y = torch.bmm(rows, transposed)
        else:
            y = torch.baddbmm(self.bias[:, None], rows, transposed)
        return y if x.dim() == 3 else y.view(*x.shape[:-1], y.shape[-1])


def through(x: Tensor, *maps: Linear) -> list[Tensor]:
    """``x`` through each map; under autocast by one product, which casts ``x`` once.

    The forward hooks of the maps do not run then. All have a bias, or none has.
    """
    if not torch.is_autocast_enabled(x.device.type) or maps[0].weight.dim() > 2:
        return [m(x) for m in maps]
    biases = [m.bias for m in maps if m.bias is not None]
    weight = torch.cat([m.weight for m in maps])
    y = F.linear(x, weight, torch.cat([*biases]) if biases else None)
    return list(torch.split(y, [len(m.weight) for m in maps], dim=-1))


class Normalisation(Described):
    r"""LayerNorm or RMSNorm, :math:`\sqrt d\,Px/\|Px\|` times gain plus bias; ε times ``epsilon``.

    Source: Ba et al., arXiv 1607.06450; Zhang and Sennrich, arXiv 1910.07467.
    """

    gain: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self, spec: Norm, width: int, make: Make, site: Site, epsilon: float = 1.0,
        prefix: str = "",
    ) -> None:  # fmt: skip
        super().__init__()
        self.spec, self.width, self.epsilon = spec, width, epsilon
        self.gain = self.bias = None
        if make.vectors:
            gain, bias = f"{prefix}gain", f"{prefix}bias"
            self.gain = self.own("gain", make.empty(width), site, Role.NORM_GAIN, gain)
            if spec.bias and make.bias:
                self.bias = self.own("bias", make.empty(width), site, Role.NORM_BIAS, bias, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        if self.gain is None or self.gain.dim() == 1:
            return normalise(x, self.spec, self.gain, self.bias, self.epsilon)
        # a stack of seeds: (k, width) against (k, …, width)
        shape = (self.gain.shape[0], *(1 for _ in x.shape[1:-1]), self.width)
        y = normalise(x, self.spec, epsilon=self.epsilon) * self.gain.view(shape)
        return y if self.bias is None else y + self.bias.view(shape)


def normalise(
    x: Tensor, spec: Norm, gain: Tensor | None = None, bias: Tensor | None = None,
    epsilon: float = 1.0,
) -> Tensor:  # fmt: skip
    """The norm itself, for one model's gain and bias or for none; ε is ``epsilon`` times 1e-5."""
    ε = epsilon * NORM_EPS
    if spec.centred:
        return F.layer_norm(x, x.shape[-1:], gain, bias, ε)
    return F.rms_norm(x, x.shape[-1:], gain, ε)
