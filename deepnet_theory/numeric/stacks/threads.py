"""The numbers of threads and of processes that suit the work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from deepnet_theory.numeric.stacks.depths import Depth
from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.errors import InputError

LARGE = 2**18  # activations of all seeds; below it threads cost more than they bring
LONG = 2**27  # activations times layers; below it a process takes longer to start than to help


@contextmanager
def fitting_threads(settings: Settings, processes: int = 1) -> Iterator[int]:
    """One thread for small work, where threads wait for each other; torch's choice for large.

    Beside other processes it is one thread too.
    """
    before = torch.get_num_threads()
    if processes > 1 or _activations(settings) < LARGE:
        torch.set_num_threads(1)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def fitting_processes(processes: int | None, depths: Sequence[Depth], settings: Settings) -> int:
    """``processes`` as asked for; for None one a core where the work is long, else one.

    Raises :class:`InputError` for less than one process, or for several on a GPU.
    """
    if processes is not None and (type(processes) is not int or not 1 <= processes <= 1024):
        raise InputError(f"processes {processes!r} is not a whole number from 1 to 1024")
    if settings.torch_device.type != "cpu":
        if processes is not None and processes > 1:
            raise InputError(f"processes {processes} is for the CPU; a GPU is given all at once")
        return 1
    if processes is not None:
        return processes
    layers = sum(sum(depth.values()) for depth in depths)
    if layers * settings.draws * _activations(settings) < LONG:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _activations(settings: Settings) -> int:
    return settings.seeds * settings.batch * settings.tokens * settings.width
