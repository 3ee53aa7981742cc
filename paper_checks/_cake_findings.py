"""Findings from truth values and intervals; nothing here imports torch."""

from __future__ import annotations

from typing import Any

from deepnet_theory.spec.claim import Finding
from deepnet_theory.spec.verdict import Verdict

CAKE = "Transformer layer cake (AI推公式)"
NOTE = "Pre/Post norm note"
PAPER = "DeepNet, arXiv 2203.00555"


def proved(about: str, holds: bool, because: str, **evidence: Any) -> Finding:
    """PROVED where an exact check holds, else REFUTED."""
    return Finding(about, Verdict.PROVED if holds else Verdict.REFUTED, because, evidence)


def seen(about: str, holds: bool, because: str, **evidence: Any) -> Finding:
    """SUPPORTED where every measured point agrees, else REFUTED."""
    return Finding(about, Verdict.SUPPORTED if holds else Verdict.REFUTED, because, evidence)


def within(
    about: str, interval: Any, low: float, high: float, what: str, **evidence: Any
) -> Finding:
    """SUPPORTED where the whole interval lies in [low, high], REFUTED where it lies outside."""
    if interval.within(low, high):
        verdict = Verdict.SUPPORTED
    elif interval.outside(low, high):
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.UNDECIDED
    because = f"{what}: {text(interval)}, held against [{low:g}, {high:g}]"
    return Finding(about, verdict, because, {"interval": numbers(interval), **evidence})


def exponent(
    about: str,
    interval: Any,
    predicted: float,
    rivals: tuple[tuple[str, float], ...] = (),
    tolerance: float = 0.05,
    what: str = "exponent",
    **evidence: Any,
) -> Finding:
    """An exponent against its prediction and its rivals, by the laboratory's own test."""
    from deepnet_theory.numeric.statistics import judge

    verdict, because = judge(interval, predicted, rivals, tolerance)
    return Finding(
        about, verdict, f"{what}: {because}", {"interval": numbers(interval), **evidence}
    )


def agrees(interval: Any, value: float = 1.0) -> bool:
    """Whether a sampled mean lies within twice its interval's half-width of an exact value."""
    return bool(abs(interval.estimate - value) <= 2 * (interval.high - interval.estimate))


def text(interval: Any) -> str:
    """An interval for people."""
    return f"{interval.estimate:.3g} [{interval.low:.3g}, {interval.high:.3g}]"


def numbers(interval: Any) -> list[float]:
    """Estimate, low and high for JSON."""
    return [interval.estimate, interval.low, interval.high]
