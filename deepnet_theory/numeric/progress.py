"""Progress in units of work, so that the time left can be told from the share done."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the work done so far, the whole work, and what is being done."""

    def __call__(self, done: float, total: float, what: str) -> None: ...


def silent(done: float, total: float, what: str) -> None:
    """Progress that nobody watches."""
