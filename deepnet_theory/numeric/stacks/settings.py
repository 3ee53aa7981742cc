"""Settings: the sizes, the data and the machine of a measurement, validated."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TypedDict

import torch

from deepnet_theory.runtime.machine import device_called
from deepnet_theory.spec.activation import ACTIVATIONS
from deepnet_theory.spec.errors import InputError, shown, unknown
from deepnet_theory.spec.seed import require_seed

STEPS = ("matrices", "all")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
TEXT = "text"
GAUSSIAN = "gaussian"


class Measure(TypedDict, total=False):
    """The fields of :class:`Settings`, as keywords."""

    width: int
    heads: int
    tokens: int
    batch: int
    seeds: int
    activation: str
    step: str
    data: str
    device: str
    dtype: str
    seed: int
    draws: int
    ffn_ratio: float
    updates: int
    eta: float


@dataclass(frozen=True)
class Settings:
    """What is measured on: ``width`` … ``ffn_ratio`` are the model's, the rest the experiment's.

    ``step`` says which parameters move: the branch ``matrices`` alone, of which the published
    rules speak, or ``all`` parameters of the branches and norms (embeddings and head stay).
    ``data`` is ``text`` or ``gaussian:RHO``, tokens of pairwise correlation RHO. A seed's value
    is the mean over its ``draws`` of data and weights, which are many so that few seeds suffice.
    Beside the first update, ‖F_T − F_0‖ is measured after T = 2, 4, … up to ``updates`` of them
    at the learning rate ``eta``, the same at every depth.

    Raises :class:`InputError` that restates the first bad value.
    """

    width: int = 64
    heads: int = 4
    tokens: int = 32
    batch: int = 1
    seeds: int = 8
    activation: str = "relu"
    step: str = "matrices"
    data: str = TEXT
    device: str = "auto"
    dtype: str = "float32"
    seed: int = 0
    draws: int = 4
    ffn_ratio: float = 4.0
    updates: int = 1
    eta: float = 2.0**-10

    def __post_init__(self) -> None:
        for name, least in (
            ("width", 2),
            ("heads", 1),
            ("tokens", 1),
            ("batch", 1),
            ("seeds", 2),
            ("draws", 1),
            ("updates", 1),
        ):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= 2**20:
                raise InputError(f"{name} {shown(value)} is not a whole number of {least} or more")
        if self.width % self.heads:
            raise InputError(f"width {self.width} is not a multiple of heads {self.heads}")
        require_seed(self.seed)
        ratio = self.ffn_ratio
        if type(ratio) not in (int, float) or not 0 < ratio <= 1024:
            raise InputError(f"ffn-ratio {shown(ratio)} is not a number above 0, up to 1024")
        if type(self.eta) not in (int, float) or not 0 < self.eta <= 1e30:
            raise InputError(f"eta {shown(self.eta)} is not a number above 0, up to 1e30")
        if ratio * self.width < 1:
            raise InputError(f"ffn-ratio {ratio!r} leaves no hidden unit at width {self.width}")
        for name, valid in (
            ("activation", ACTIVATIONS),
            ("step", STEPS),
            ("dtype", tuple(DTYPES)),
        ):
            if getattr(self, name) not in valid:
                raise unknown(name, getattr(self, name), valid)
        _ = self.correlation
        _ = self.torch_device

    @property
    def correlation(self) -> float | None:
        """The tokens' correlation ρ for Gaussian data, None for text."""
        if self.data == TEXT:
            return None
        kind, _, rho = str(self.data).partition(":")
        try:
            value = float(rho) if kind == GAUSSIAN else math.nan
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise InputError(
                f"unknown data {shown(self.data)}; valid are: text, "
                "gaussian:RHO with RHO from 0 to 1"
            )
        return value

    @property
    def torch_device(self) -> torch.device:
        """The device that ``auto`` resolves to, or the one asked for."""
        return device_called(self.device)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The floating-point type of weights and activations."""
        return DTYPES[self.dtype]

    def to_dict(self) -> dict[str, object]:
        """The settings as plain data, for JSON."""
        return asdict(self)
