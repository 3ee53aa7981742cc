"""From what was found to a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepnet_theory.spec.claim import Finding
from deepnet_theory.spec.verdict import Verdict


def proved(
    about: str, holds: bool, because: str, evidence: Mapping[str, Any] | None = None
) -> Finding:
    """PROVED where an exact statement holds, else REFUTED."""
    return Finding(about, Verdict.PROVED if holds else Verdict.REFUTED, because, evidence or {})


def measured(
    about: str, holds: bool, because: str, evidence: Mapping[str, Any] | None = None
) -> Finding:
    """SUPPORTED where a measured statement holds, else REFUTED."""
    return Finding(about, Verdict.SUPPORTED if holds else Verdict.REFUTED, because, evidence or {})


def interval_within(
    about: str,
    low: float,
    high: float,
    floor: float,
    ceiling: float,
    because: str,
    evidence: Mapping[str, Any] | None = None,
) -> Finding:
    """SUPPORTED where [low, high] lies in [floor, ceiling], REFUTED where outside, else "
    "UNDECIDED."""
    if floor <= low and high <= ceiling:
        verdict = Verdict.SUPPORTED
    elif high < floor or low > ceiling:
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.UNDECIDED
    return Finding(about, verdict, because, evidence or {})
