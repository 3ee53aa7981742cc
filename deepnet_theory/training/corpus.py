"""What is trained on: windows of real text, or a parallel catalogue of short sentences.

Tokens are bytes. A tenth of a corpus is held out, in pieces spread evenly through it: the topic
of a text changes from beginning to end, and its last tenth alone would be another text.
"""

from __future__ import annotations

import gettext
import math
from dataclasses import dataclass
from hashlib import sha256
from importlib import util
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from deepnet_theory.numeric.stacks.data import text_bytes
from deepnet_theory.spec.errors import InputError, MissingExtraError
from deepnet_theory.spec.files import read_bytes

IGNORED = -100  # the target of a padded place
BYTES = 256
MAX_BYTES = 2**30
MAX_CYCLES = 20  # pieces that are held out, at most


@dataclass(frozen=True)
class Batch:
    """Decoder input and targets (batch, tokens); for two parts the source and its padding."""

    tokens: Tensor
    targets: Tensor
    source: Tensor | None = None
    source_padding: Tensor | None = None

    def shuffled(self) -> Batch:
        """The same targets, each with the next example's source."""
        assert self.source is not None
        padding = self.source_padding
        return Batch(
            self.tokens,
            self.targets,
            self.source.roll(1, 0),
            None if padding is None else padding.roll(1, 0),
        )

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        parts = (self.tokens, self.targets, self.source, self.source_padding)
        return Batch(*(None if p is None else p.to(device) for p in parts))  # type: ignore[arg-type]


class Corpus(Protocol):
    """Anything that gives batches and the unigram entropy of its targets."""

    name: str
    baseline: float
    digest: str  # of what is learnt from, whose name says nothing of its content

    def batch(self, size: int, generator: torch.Generator, *, held_out: bool = False) -> Batch:
        """``size`` examples at random."""


class Text:
    """Windows of a text: each byte is predicted from those before it.

    For an encoder–decoder (``parts=2``) the source is one window and the decoder continues it
    with the next. ``train`` and ``held_out`` are (cycles, bytes): the text is cut into cycles of
    ten pieces, of which the last is held out, and no window crosses from one into another.
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
        # cycles of ten pieces, of which the last is held out and has room for some windows
        self.cycles = max(1, min(MAX_CYCLES, len(text) // (40 * self._span)))
        self.piece = len(text) // (10 * self.cycles)
        cycles = text[: 10 * self.cycles * self.piece].view(self.cycles, -1)
        self.digest = sha256(cycles.numpy().data).hexdigest()
        self.train, self.held_out = cycles[:, : -self.piece], cycles[:, -self.piece :]
        # no model that ignores its input has a mean loss below the entropy of what it is tried on
        self.baseline = min(entropy(self.train), entropy(self.held_out))

    @property
    def _span(self) -> int:
        return self.parts * self.tokens + 1

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


class Translation:
    """Django's parallel message catalogues, English to another language, by bytes.

    A target is read from a start byte to an end byte, both 0, which no message contains.
    """

    def __init__(self, tokens: int, language: str = "de") -> None:
        self.name = f"Django's message catalogues, English to {language!r}"
        self.tokens = tokens
        messages = _catalogue(language)
        pairs = [(s, t) for s, t in messages if len(s) <= tokens and len(t) < tokens]
        if len(pairs) < 100:
            raise InputError(
                f"{self.name} have {len(pairs)} messages of fewer than {tokens} bytes; "
                "100 are needed"
            )
        # every tenth message is held out, whole: the catalogues are sorted by application
        self.digest = sha256(repr(pairs).encode()).hexdigest()
        self.held_out = pairs[::10]
        self.train = [p for i, p in enumerate(pairs) if i % 10]
        self.baseline = min(
            entropy(torch.tensor([b for _, t in side for b in (*t, 0)]))
            for side in (self.train, self.held_out)
        )

    def batch(self, size: int, generator: torch.Generator, *, held_out: bool = False) -> Batch:
        """Messages at random."""
        pairs = self.held_out if held_out else self.train
        chosen = [pairs[i] for i in torch.randint(len(pairs), (size,), generator=generator)]
        width, length = (max(len(p[side]) for p in chosen) for side in (0, 1))
        source = torch.zeros(size, width, dtype=torch.int64)
        padding = torch.ones(size, width, dtype=torch.bool)
        tokens = torch.zeros(size, length + 1, dtype=torch.int64)  # begins with the start byte
        targets = torch.full((size, length + 1), IGNORED)
        for row, (s, t) in enumerate(chosen):
            source[row, : len(s)] = torch.tensor(list(s))
            padding[row, : len(s)] = False
            tokens[row, 1 : len(t) + 1] = torch.tensor(list(t))
            targets[row, : len(t) + 1] = torch.tensor([*t, 0])
        return Batch(tokens, targets, source, padding)


def entropy(symbols: Tensor) -> float:
    r"""The entropy :math:`-\sum p\ln p` of the bytes' frequencies, in nats.

    It is the least loss of a model that ignores its input.
    """
    p = torch.bincount(symbols.flatten(), minlength=BYTES).double()
    p = p[p > 0] / p.sum()
    return -float((p * p.log()).sum()) if math.isfinite(float(p.sum())) else math.nan


def _read(path: Path) -> Tensor:
    raw = bytearray(read_bytes(path, MAX_BYTES))
    return torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)


def _catalogue(language: str) -> list[tuple[bytes, bytes]]:
    """The distinct messages of every Django catalogue of a language, without plural forms."""
    found = util.find_spec("django")
    if found is None or found.origin is None:
        raise MissingExtraError("Django", "translation")
    folder = Path(found.origin).parent
    if not language.replace("_", "").isalpha():
        raise InputError(f"{language!r} is not a language such as 'de' or 'pt_BR'")
    pairs: dict[bytes, bytes] = {}
    for path in sorted(folder.rglob(f"locale/{language}/LC_MESSAGES/*.mo")):
        with path.open("rb") as file:
            messages = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        for message, translated in messages.items():
            if isinstance(message, str) and message and translated:
                pairs.setdefault(message.encode(), translated.encode())
    return list(pairs.items())
