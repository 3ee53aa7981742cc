"""Parameters, and the two maps that own them: a linear map and a norm.

Everything here takes one model or a stack of k models ("seeds"): a stacked parameter has a
leading dimension k, and so have the activations. Nothing else in the runtime knows the
difference, apart from attention, which folds k into the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from deepnet_theory.runtime.description import Described, Description, Site
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.norm import EPSILON
from deepnet_theory.spec.norm import Norm as NormSpec
from deepnet_theory.spec.sublayer import Role

NORM_EPS = EPSILON


@dataclass(frozen=True)
class Make:
    """How parameters are made: for how many seeds, where, in which type, and which vectors."""

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

        A stacked one lies in memory as (k, in, out): a batched product then gives the gradient
        in the same layout, and no copy of it is made.
        """
        if self.seeds is None:
            return self.empty(fan_out, fan_in)
        return nn.Parameter(self.empty(fan_in, fan_out).detach().transpose(1, 2))


class Linear(Described):
    """y = x Wᵀ + b, the weight (out, in), or (k, out, in) for a stack of seeds."""

    bias: nn.Parameter | None

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        make: Make,
        site: Site,
        name: str,
        role: Role,
        gain: float = 1.0,
        bias: tuple[str, Role] | None = None,
    ) -> None:
        super().__init__()
        self.weight = make.weight(fan_out, fan_in)
        self.descriptions["weight"] = Description(**vars(site), role=role, name=name, gain=gain,
                                                  fan_in=fan_in, fan_out=fan_out)  # fmt: skip
        if bias is None or not (make.vectors and make.bias):
            self.bias = None
        else:
            self.bias = make.empty(fan_out)
            self.descriptions["bias"] = Description(
                **vars(site), role=bias[1], name=bias[0], gain=0.0
            )

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


class Norm(Described):
    r"""LayerNorm or RMSNorm over the width, :math:`\sqrt d\,Px/\|Px\|` times gain plus bias.

    Its ε is the usual one times ``epsilon``.

    Source: Ba et al., arXiv 1607.06450; Zhang and Sennrich, arXiv 1910.07467.
    """

    gain: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self, spec: NormSpec, width: int, make: Make, site: Site, epsilon: float = 1.0
    ) -> None:
        super().__init__()
        self.spec, self.width, self.epsilon = spec, width, epsilon
        self.gain = self.bias = None
        if make.vectors:
            self.gain = make.empty(width)
            self.descriptions["gain"] = Description(
                **vars(site), role=Role.NORM_GAIN, name="gain", gain=1.0
            )
            if spec.bias and make.bias:
                self.bias = make.empty(width)
                self.descriptions["bias"] = Description(
                    **vars(site), role=Role.NORM_BIAS, name="bias", gain=0.0
                )

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…, width)."""
        if self.gain is None or self.gain.dim() == 1:
            return normalise(x, self.spec, self.gain, self.bias, self.epsilon)
        # a stack of seeds: (k, width) against (k, …, width)
        shape = (self.gain.shape[0], *(1 for _ in x.shape[1:-1]), self.width)
        y = normalise(x, self.spec, epsilon=self.epsilon) * self.gain.view(shape)
        return y if self.bias is None else y + self.bias.view(shape)


def normalise(
    x: Tensor,
    spec: NormSpec,
    gain: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 1.0,
) -> Tensor:
    """The norm itself, for one model's gain and bias or for none; ε is ``epsilon`` times 1e-5."""
    ε = epsilon * NORM_EPS
    if spec.centred:
        return F.layer_norm(x, x.shape[-1:], gain, bias, ε)
    return F.rms_norm(x, x.shape[-1:], gain, ε)
