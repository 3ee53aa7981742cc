"""Data: windows of real text, and Gaussian tokens of a chosen correlation."""

from __future__ import annotations

import math
from functools import cache
from pydoc_data.topics import topics  # type: ignore[import-untyped]

import torch
from torch import Tensor

from deepnet_theory.spec.errors import InputError


@cache
def text_bytes() -> Tensor:
    """The bytes of Python's own documentation topics, in order of their names: (length,) int64.

    Real text that every Python ships, so nothing is downloaded.
    """
    text = "\n".join(topics[name] for name in sorted(topics)).encode("utf-8")
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).to(torch.int64)


def text_windows(count: int, length: int, generator: torch.Generator) -> Tensor:
    """``count`` windows of ``length`` consecutive bytes at random places: (count, length)."""
    text = text_bytes()
    if length > len(text):
        raise InputError(f"the text has {len(text)} bytes, fewer than a window of {length} tokens")
    starts = torch.randint(len(text) - length + 1, (count, 1), generator=generator)
    return text[starts + torch.arange(length)]


def gaussian_tokens(
    shape: tuple[int, int, int, int], correlation: float, generator: torch.Generator
) -> Tensor:
    r"""Tokens :math:`\sqrt\rho\,c + \sqrt{1-\rho}\,e_t`, c common to a sequence.

    Shape (seeds, batch, tokens, width); entries have variance 1, and any two tokens of a
    sequence have correlation ρ. The draws do not depend on ρ.
    """
    seeds, batch, _, width = shape
    common = torch.randn((seeds, batch, 1, width), generator=generator, dtype=torch.float64)
    own = torch.randn(shape, generator=generator, dtype=torch.float64)
    return math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
