"""The number of threads that suits the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from deepnet_theory.numeric.settings import Settings

LARGE = 2**18  # activations of all seeds; below it threads cost more than they bring


@contextmanager
def fitting_threads(settings: Settings) -> Iterator[int]:
    """One thread for small work, where threads wait for each other; torch's choice for large."""
    before = torch.get_num_threads()
    activations = settings.seeds * settings.batch * settings.tokens * settings.width
    if activations < LARGE:
        torch.set_num_threads(1)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
