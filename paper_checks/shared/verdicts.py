"""The judgements of claims that are one function yet: each names the part that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from deepnet_theory.spec.claim import Finding
from paper_checks.shared import judging
from paper_checks.shared.judging import MARGIN, agrees, numbers, text

__all__ = [
    "MARGIN", "agrees", "at_most", "exponent", "numbers", "proved", "seen", "text", "within",
    "worst",
]  # fmt: skip


def _about(judged: Callable[..., Finding]) -> Callable[..., Finding]:
    def on(about: str, *given: Any, **named: Any) -> Finding:
        return replace(judged(*given, **named), about=about)

    return on


at_most, exponent = _about(judging.at_most), _about(judging.exponent)
proved, seen, within = _about(judging.proved), _about(judging.seen), _about(judging.within)


def worst(found: Iterable[Finding]) -> Finding:
    """The finding with the worst verdict."""
    return judging.worst(*found)
