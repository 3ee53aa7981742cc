"""The machine: how many threads torch computes with, and on which device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from deepnet_theory.spec.errors import InputError, unknown

DEVICES = ("auto", "cpu", "cuda")
LARGE = 2**18  # activations; below it threads wait for each other more than they help
T = TypeVar("T")


def fitting_threads(activations: int) -> int:
    """One thread for small work, torch's own choice for ``activations`` of ``LARGE`` or more."""
    return 1 if activations < LARGE else torch.get_num_threads()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Within this context torch computes with ``count`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_threads(count: int, work: Callable[[], T]) -> T:
    """The result of ``work``, done with ``count`` threads: the same in whichever process."""
    with threads(count):
        return work()


def device_called(name: str) -> torch.device:
    """The device of this name; ``auto`` is CUDA where it is there.

    Raises :class:`InputError` for another name, or for CUDA where there is none.
    """
    if name not in DEVICES:
        raise unknown("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' is not available here; valid are: auto, cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
