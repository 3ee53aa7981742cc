"""Windows of a text: each byte is predicted from those before it.

A tenth of a text is kept for validation, in pieces spread evenly through it: its topic changes
from start to end.
"""

from __future__ import annotations

import math
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from pydoc_data.topics import topics  # type: ignore[import-untyped]
from typing import NamedTuple

import torch
from torch import Tensor

from deepnet_theory.definitions.files import read_bytes
from deepnet_theory.definitions.outcome import InputError

BYTES = 256
MAX_BYTES = 2**30
MAX_CYCLES = 20  # pieces for validation, at most


@cache
def text_bytes() -> Tensor:
    """The bytes of Python's own documentation topics, which every Python ships: (length,) int64."""
    text = "\n".join(topics[name] for name in sorted(topics)).encode("utf-8")
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).to(torch.int64)


def text_windows(count: int, length: int, generator: torch.Generator) -> Tensor:
    """Windows at random places of that text: (count, length)."""
    text = text_bytes()
    if length > len(text):
        raise InputError(f"the text has {len(text)} bytes, fewer than a window of {length} tokens")
    starts = torch.randint(len(text) - length + 1, (count, 1), generator=generator)
    return text[starts + torch.arange(length)]


class Windows(NamedTuple):
    """Decoder input and targets (batch, tokens), and the source where the stack has two parts."""

    tokens: Tensor
    targets: Tensor
    source: Tensor | None = None


class Text:
    """Windows of a file's bytes, or of :func:`text_bytes`.

    For an encoder–decoder (``parts=2``) the source is one window, continued by the next. ``train``
    and ``held_out`` are (cycles, bytes): no window crosses from one piece into another. Raises
    :class:`InputError` for a text that cannot be read or is too short.
    """

    def __init__(self, path: str | Path | None, tokens: int, parts: int = 1) -> None:
        if path is None:
            self.name, text = "the standard library's pydoc_data.topics", text_bytes()
        else:
            self.name, text = str(path), _read(Path(path))
        self.tokens, self.parts, self.span = tokens, parts, parts * tokens + 1
        if len(text) < 10 * self.span:
            raise InputError(
                f"the text {self.name!r} has {len(text)} bytes; windows of {tokens} tokens "
                f"need at least {10 * self.span}"
            )
        # cycles of ten pieces; the last is for validation and has room for some windows
        self.cycles = max(1, min(MAX_CYCLES, len(text) // (40 * self.span)))
        self.piece = len(text) // (10 * self.cycles)
        self.whole = text[: 10 * self.cycles * self.piece].view(self.cycles, -1)
        self.train, self.held_out = self.whole[:, : -self.piece], self.whole[:, -self.piece :]

    @cached_property
    def digest(self) -> str:
        """Of what is learnt from, whose name says nothing of its content."""
        return sha256(self.whole.numpy().data).hexdigest()

    @cached_property
    def baseline(self) -> float:
        """No model that ignores its input has a mean loss below it on what it is tried on."""
        return min(entropy(self.train), entropy(self.held_out))

    @property
    def counts(self) -> Tensor:
        """How often each byte occurs in what is learnt from: (256,)."""
        return torch.bincount(self.train.flatten(), minlength=BYTES)

    def batch(self, size: int, generator: torch.Generator, *, held_out: bool = False) -> Windows:
        """Windows at random places, each within one run of training or validation text."""
        runs = self.held_out if held_out else self.train  # (cycles, bytes)
        cycle = torch.randint(self.cycles, (size, 1), generator=generator)
        start = torch.randint(runs.shape[1] - self.span + 1, (size, 1), generator=generator)
        # (batch, parts·tokens + 1)
        window = runs[cycle, start + torch.arange(self.span)].to(torch.int64)
        source = window[:, : self.tokens] if self.parts == 2 else None
        window = window[:, -self.tokens - 1 :]
        return Windows(window[:, :-1], window[:, 1:], source)


def entropy(symbols: Tensor) -> float:
    r"""The entropy :math:`-\sum p\ln p`, the lowest loss of a model that ignores its input."""
    p = torch.bincount(symbols.flatten(), minlength=BYTES).double()
    p = p[p > 0] / p.sum()
    return -float((p * p.log()).sum()) if math.isfinite(float(p.sum())) else math.nan


def _read(path: Path) -> Tensor:
    raw = bytearray(read_bytes(path, MAX_BYTES))
    return torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
