"""The machine: where torch computes, in what type, with how many threads, how repeatably."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from deepnet_theory.definitions.outcome import InputError, shown, unknown

DEVICES = ("auto", "cpu", "cuda")
LARGE = 2**18  # activations; below it threads wait for each other more than they help
T = TypeVar("T")


def fitting_threads(activations: int) -> int:
    """One thread for small work, torch's own choice for ``activations`` of ``LARGE`` or more."""
    return 1 if activations < LARGE else torch.get_num_threads()


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Within this context a GPU gives the same bits again, as a CPU does; or torch warns.

    Attention is made of products: fused kernels add gradients in any order.
    """
    if device.type != "cuda":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS begins
    before = torch.are_deterministic_algorithms_enabled()
    lenient = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=lenient)


def in_threads(count: int, work: Callable[[], T]) -> T:
    """The result of ``work``, done with ``count`` threads: the same in whichever process."""
    with threads(count):
        return work()


def device_called(name: str) -> torch.device:
    if name not in DEVICES:
        raise unknown("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' is not available here; valid are: auto, cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and torch.cuda._is_in_bad_fork():
        raise InputError("a fork of a process that has used CUDA cannot use it: spawn the process")
    return torch.device(name)


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def device_of(device: torch.device | str) -> torch.device:
    """The device; raises :class:`InputError` for one that torch does not know or has not here."""
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError, TypeError, ValueError):
        here = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
        raise unknown("device", str(device), here) from None
    return where


def require_dtype(dtype: object) -> None:
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {shown(dtype)}; valid are: {', '.join(map(str, DTYPES))}")
