"""What a measurement is asked for: depths, widths, settings, and what they ask of the machine.

Depths are ``8,16,32``, a geometric range ``8:1000``, and ``8x6,16x6`` for two parts.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import scipy
import torch

from deepnet_theory.definitions.measurement import Provenance
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.definitions.outcome import shown as written
from deepnet_theory.definitions.record import Measurement
from deepnet_theory.definitions.selection import DepthLike, Stack, parse_depth
from deepnet_theory.processes.jobs import cores, require_processes
from deepnet_theory.runtime import machine
from deepnet_theory.runtime.machine import device_called

T = TypeVar("T")
Depth = dict[str, int]
MOST_WIDTH = 2**20
FEWEST = 3  # widths that show whether a line is one


def provenance(
    began: float, device: torch.device, stopped: str = "", warnings: Iterable[str] = ()
) -> Provenance:
    """How an experiment ran that began at a time of ``perf_counter``, on the card of this name."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    libraries = {one.__name__: one.__version__ for one in (torch, np, scipy)}
    versions = {"python": platform.python_version(), **libraries}
    return Provenance(name, time.perf_counter() - began, versions, tuple(warnings), stopped)


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


# ---- depths and widths ----


def listed(asked: Any, one: Callable[[Any], T], between: Callable[..., Iterable[T]]) -> list[T]:
    """The items of a sequence, or of a text with commas, sorted, once each; ``a:b`` is a range."""
    found = set[T]()
    for item in asked.split(",") if isinstance(asked, str) else asked:
        ranged = isinstance(item, str) and ":" in item
        found.update(between(*item.split(":")) if ranged else [one(item)])
    return sorted(found)  # type: ignore[type-var]


def parse_depths(depths: str | Iterable[object], stack: Stack) -> tuple[Depth, ...]:
    """The depths of a text or of a sequence, sorted, without repetition.

    An item is a number of layers, or a pair ``NxM``, tuple or mapping where the stack has two
    parts; ``a:b`` are depths in equal ratios close to 2. Raises :class:`InputError`.
    """

    def one(item: object) -> tuple[int, ...]:
        depth = item.replace("x", ",") if isinstance(item, str) else cast(DepthLike, item)
        return tuple(parse_depth(depth, stack).values())

    def between(*ends: str) -> Iterator[tuple[int, ...]]:
        if len(ends) != 2 or len(stack.parts) > 1:
            raise InputError(f"{':'.join(ends)!r} is no range")
        (first,), (last,) = map(one, map(str.strip, ends))
        if last <= first:
            raise InputError(f"the range from {first} to {last} does not rise")
        steps = max(1, round(math.log2(last / first)))
        ratio = (last / first) ** (1 / steps)
        yield from ((round(first * ratio**i),) for i in range(steps))
        yield (last,)

    try:
        found = listed(depths, one, between)
        if not found:
            raise InputError("it is empty")
    except TypeError:
        raise InputError(f"the depths {written(depths)} are not a list") from None
    except InputError as why:
        form = "8x6,16x6 (encoder x decoder layers)" if len(stack.parts) > 1 else "8,16 or 8:1000"
        raise InputError(
            f"the depths {written(depths)} cannot be read: {why}; a list is {form}"
        ) from None
    return tuple(dict(zip(stack.depths, depth, strict=True)) for depth in found)


def parse_widths(
    widths: str | Iterable[object], fewest: int = FEWEST, what: str = "widths", least: int = 2
) -> tuple[int, ...]:
    """The widths (or ``what`` it is) of a text, ``64,128`` or ``64:1024``, or of a sequence.

    Sorted, once each, from ``least`` on. Raises :class:`InputError` for anything else, and for less
    than ``fewest``.
    """

    def one(item: object) -> int:
        word = str(item).strip()
        if not (word.isascii() and word.isdigit() and least <= int(word[:9]) <= MOST_WIDTH):
            raise ValueError(word)
        return int(word[:9])

    def between(first: str, last: str) -> list[int]:
        low, high = one(first), one(last)
        return [low << i for i in range((high // low).bit_length())]

    several = list[int]()
    with suppress(TypeError, ValueError):
        several = listed(widths, one, between)
    if not several:
        raise InputError(
            f"the {what} {written(widths)} cannot be read: valid are whole numbers from {least} "
            f"to {MOST_WIDTH}, such as 64,128,256 or 64:1024"
        )
    if len(several) < fewest:
        raise InputError(
            f"the {what} {written(widths)} give no exponent: {fewest} or more are needed"
        )
    return tuple(several)


def depth_key(depth: Mapping[str, int]) -> str:
    """A depth as text, ``8`` or ``8x6``: the key of its measurements."""
    return "x".join(str(n) for n in depth.values())


def wanted_depths(depths: str | Iterable[object] | None, stack: Stack) -> tuple[Depth, ...]:
    """The depths that were asked for, or by default five in each part of the stack."""
    if depths is None:
        two = len(stack.parts) > 1
        depths = "8x8,16x8,32x8,64x8,8x16,8x32,8x64" if two else "8,16,32,64,128"
    return parse_depths(depths, stack)
