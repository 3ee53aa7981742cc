"""What settings ask of the machine: device, memory, threads and processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from deepnet_theory.numeric.depths import Depth, depth_key
from deepnet_theory.processes import cores, require_processes
from deepnet_theory.runtime import machine
from deepnet_theory.runtime.machine import device_called
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.settings import Measurement

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Settings(Measurement):
    """The settings of a measurement, on a device that is there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.torch_device

    @property
    def torch_device(self) -> torch.device:
        return device_called(self.device)

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]


def needed_bytes(selection: Selection, depth: Depth, settings: Settings) -> int:
    """What one step at one depth holds at least: the weights, and activations until the backward.

    A sublayer keeps about 4 activations of the width and one of the hidden width; with a twin.
    """
    width, hidden = settings.width, int(settings.ffn_ratio * settings.width)
    sublayers = int(sum(depth[p.depth] * p.sublayers_per_layer for p in selection.the_stack.parts))
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
    """Threads by the settings alone: results depend on their number. A GPU is made repeatable."""
    count = machine.fitting_threads(_activations(settings))
    with machine.threads(count), machine.repeatable(settings.torch_device):
        yield count


def fitting_processes(processes: int | None, depths: Sequence[Depth], settings: Settings) -> int:
    """``processes`` as asked for; for None as many as fill the cores where the work is long.

    Raises :class:`InputError` for less than one process, or for several on a GPU.
    """
    if processes is not None:
        require_processes(processes)
        if settings.torch_device.type != "cpu" and processes > 1:
            raise InputError(f"processes {processes} is for the CPU; a GPU is given all at once")
        return processes
    if settings.torch_device.type != "cpu":
        return 1
    layers = sum(sum(depth.values()) for depth in depths)
    if layers * settings.draws * _activations(settings) < LONG:
        return 1
    return max(1, cores() // machine.fitting_threads(_activations(settings)))


def _activations(settings: Settings) -> int:
    return settings.seeds * settings.batch * settings.tokens * settings.width
