"""Settings: the sizes, the data and the machine of a measurement, validated."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

import torch

from deepnet_theory.numeric.depths import Depth, depth_key
from deepnet_theory.processes import cores, require_processes
from deepnet_theory.runtime import machine
from deepnet_theory.runtime.machine import device_called
from deepnet_theory.spec.activation import ACTIVATIONS
from deepnet_theory.spec.errors import InputError, shown, unknown
from deepnet_theory.spec.seed import require_seed
from deepnet_theory.spec.selection import Selection

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


def needed_bytes(selection: Selection, depth: Depth, settings: Settings) -> int:
    """What one step at one depth holds at least: the weights, and activations until the backward.

    A sublayer of half a layer's share keeps about 4 activations of the stream's width and one of
    the hidden width; with a twin of the first seed.
    """
    width, hidden = settings.width, int(settings.ffn_ratio * settings.width)
    sublayers = sum(depth[p.depth] * len(p.layer) for p in selection.the_stack.parts)
    tokens = settings.batch * settings.tokens
    weights = sublayers * width * (2 * width + hidden)
    activations = sublayers * tokens * (4 * width + hidden)
    return (settings.seeds + 1) * (weights + activations) * settings.torch_dtype.itemsize


def available_bytes(device: torch.device) -> int:
    """The memory that can be had: of the GPU, or what the system and its limits leave."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    found = []
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        found.append(1024 * int(text.partition("MemAvailable:")[2].split()[0]))
    with suppress(OSError, ValueError):
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text(encoding="ascii"))
            for name in ("max", "current")
        )
        found.append(limit - used)
    if not found and hasattr(os, "sysconf"):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=2**63)


def require_memory(selection: Selection, depths: list[Depth], settings: Settings) -> None:
    """Raise :class:`InputError` where the deepest stack needs more memory than there is."""
    depth = max(depths, key=lambda d: sum(d.values()))
    needed = needed_bytes(selection, depth, settings)
    there = available_bytes(settings.torch_device)
    if needed > there:
        raise InputError(
            f"depth {depth_key(depth)} with {settings.tokens} tokens, batch {settings.batch}, "
            f"{settings.seeds} seeds and width {settings.width} needs at least "
            f"{needed / 1e9:.0f} GB of memory, and {there / 1e9:.0f} GB are there; ask for less"
        )


LONG = 2**27  # activations times layers; below it a process takes longer to start than to help


@contextmanager
def fitting_threads(settings: Settings) -> Iterator[int]:
    """As many threads as suit the settings, whatever else runs: results depend on their number.

    A GPU is made repeatable.
    """
    count = machine.fitting_threads(_activations(settings))
    with machine.threads(count), machine.repeatable(settings.torch_device):
        yield count


def fitting_processes(processes: int | None, depths: Sequence[Depth], settings: Settings) -> int:
    """``processes`` as asked for; for None as many as fill the cores where the work is long.

    Raises :class:`InputError` for less than one process, or for several on a GPU.
    """
    if processes is not None:
        require_processes(processes)
    if settings.torch_device.type != "cpu":
        if processes is not None and processes > 1:
            raise InputError(f"processes {processes} is for the CPU; a GPU is given all at once")
        return 1
    if processes is not None:
        return processes
    layers = sum(sum(depth.values()) for depth in depths)
    if layers * settings.draws * _activations(settings) < LONG:
        return 1
    return max(1, cores() // machine.fitting_threads(_activations(settings)))


def _activations(settings: Settings) -> int:
    return settings.seeds * settings.batch * settings.tokens * settings.width
