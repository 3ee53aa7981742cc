"""Progress in units of work, so that the time left can be told from the share done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from deepnet_theory.spec.verification import Point

Watch = Callable[[Point], None]  # receives each point as soon as it is measured


class Progress(Protocol):
    """Receives the work done so far, the whole work, and what is being done."""

    def __call__(self, done: float, total: float, what: str) -> None: ...


def silent(done: float, total: float, what: str) -> None:
    """Progress that nobody watches."""
