"""What is trained on: windows of real text, as bytes.

A tenth is held out in pieces spread evenly through it: its topic changes from start to end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from deepnet_theory.numeric.trial import text_bytes
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.files import read_bytes

BYTES = 256
MAX_BYTES = 2**30
MAX_CYCLES = 20  # pieces that are held out, at most
HELD_OUT_BATCHES = 8


@dataclass(frozen=True)
class Batch:
    """Decoder input and targets (batch, tokens), and the source where the stack has two parts."""

    tokens: Tensor
    targets: Tensor
    source: Tensor | None = None

    def shuffled(self) -> Batch:
        """The same targets, each with the next example's source."""
        assert self.source is not None
        return Batch(self.tokens, self.targets, self.source.roll(1, 0))

    def to(self, device: torch.device) -> Batch:
        source = None if self.source is None else self.source.to(device)
        return Batch(self.tokens.to(device), self.targets.to(device), source)


class Text:
    """Windows of a text: each byte is predicted from those before it.

    For an encoder–decoder (``parts=2``) the source is one window, continued by the next. ``train``
    and ``held_out`` are (cycles, bytes): no window crosses from one piece into another.
    """

    def __init__(self, path: str | Path | None, tokens: int, parts: int = 1) -> None:
        if path is None:
            self.name, text = "the standard library's pydoc_data.topics", text_bytes()
        else:
            self.name, text = str(path), _read(Path(path))
        self.tokens, self.parts = tokens, parts
        if len(text) < 10 * self._span:
            raise InputError(
                f"the text {self.name!r} has {len(text)} bytes; windows of {tokens} tokens "
                f"need at least {10 * self._span}"
            )
        # cycles of ten pieces; the last is held out and has room for some windows
        self.cycles = max(1, min(MAX_CYCLES, len(text) // (40 * self._span)))
        self.piece = len(text) // (10 * self.cycles)
        cycles = text[: 10 * self.cycles * self.piece].view(self.cycles, -1)
        # of what is learnt from, whose name says nothing of its content
        self.digest = sha256(cycles.numpy().data).hexdigest()
        self.train, self.held_out = cycles[:, : -self.piece], cycles[:, -self.piece :]
        # no model that ignores its input has a mean loss below the entropy of what it is tried on
        self.baseline = min(entropy(self.train), entropy(self.held_out))

    @property
    def _span(self) -> int:
        return self.parts * self.tokens + 1

    @property
    def counts(self) -> Tensor:
        """How often each byte occurs in what is learnt from: (256,)."""
        return torch.bincount(self.train.flatten(), minlength=BYTES)

    def batch(self, size: int, generator: torch.Generator, *, held_out: bool = False) -> Batch:
        """Windows at random places, each within one run of training or held-out text."""
        runs = self.held_out if held_out else self.train  # (cycles, bytes)
        cycle = torch.randint(self.cycles, (size, 1), generator=generator)
        last = runs.shape[1] - self._span
        start = torch.randint(last + 1, (size, 1), generator=generator)
        # (batch, parts·tokens + 1)
        window = runs[cycle, start + torch.arange(self._span)].to(torch.int64)
        source = window[:, : self.tokens] if self.parts == 2 else None
        own = window[:, -self.tokens - 1 :]
        return Batch(own[:, :-1], own[:, 1:], source)

    def trials(self, size: int, generator: Callable[[int], torch.Generator]) -> list[Batch]:
        """The held-out windows that every model is judged on, by generators of -1, -2 and so on."""
        drawn = (generator(-1 - index) for index in range(HELD_OUT_BATCHES))
        return [self.batch(size, one, held_out=True) for one in drawn]


def entropy(symbols: Tensor) -> float:
    r"""The entropy :math:`-\sum p\ln p`, nats: the least loss of a model that ignores its input."""
    p = torch.bincount(symbols.flatten(), minlength=BYTES).double()
    p = p[p > 0] / p.sum()
    return -float((p * p.log()).sum()) if math.isfinite(float(p.sum())) else math.nan


def _read(path: Path) -> Tensor:
    raw = bytearray(read_bytes(path, MAX_BYTES))
    return torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
