"""From truth values and intervals to a verdict; nothing here imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from deepnet_theory.spec.claim import WORST_FIRST, Finding
from deepnet_theory.spec.verdict import Verdict

# An equality or a ratio within 5 %, a difference of logarithms within 0.05, is the equivalence
# margin of every claim that does not state one of its own: the laboratory's for exponents.
MARGIN = 0.05


def proved(about: str, holds: bool, because: str, **evidence: Any) -> Finding:
    """PROVED where an exact check holds, else REFUTED.

    Exact is algebra, or an identity at random points to rounding; draws may only stand beside it.
    """
    return Finding(about, Verdict.PROVED if holds else Verdict.REFUTED, because, evidence)


def seen(about: str, holds: bool, because: str, **evidence: Any) -> Finding:
    """SUPPORTED where every measured point agrees, else REFUTED."""
    return Finding(about, Verdict.SUPPORTED if holds else Verdict.REFUTED, because, evidence)


def within(
    about: str, interval: Any, low: float, high: float, what: str, **evidence: Any
) -> Finding:
    """SUPPORTED where the whole interval lies in [low, high], REFUTED where it lies outside.

    Of intervals by condition, a mapping, the worst verdict counts, and the tightest is told.
    """
    if isinstance(interval, Mapping):
        return _by_condition(
            interval,
            lambda label, i: within(about, i, low, high, f"{what}, {label}", **evidence),
            lambda label, i: min(i.low - low, high - i.high),
        )
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
    predicted: float | Mapping[str, float],
    rivals: tuple[tuple[str, float], ...] = (),
    tolerance: float = MARGIN,
    what: str = "exponent",
    **evidence: Any,
) -> Finding:
    """An exponent against its prediction and its rivals, by the laboratory's own test.

    Of intervals by condition, a mapping, the worst verdict counts, and the tightest is told; the
    predictions may be by condition too.
    """
    from deepnet_theory.numeric.judging.statistics import judge

    if isinstance(interval, Mapping):
        of = predicted if isinstance(predicted, Mapping) else dict.fromkeys(interval, predicted)
        return _by_condition(
            interval,
            lambda label, i: exponent(
                about, i, of[label], rivals, tolerance, f"{what}, {label}", **evidence
            ),
            lambda label, i: -max(abs(i.low - of[label]), abs(i.high - of[label])),
        )
    verdict, because = judge(interval, predicted, rivals, tolerance)
    return Finding(
        about, verdict, f"{what}: {because}", {"interval": numbers(interval), **evidence}
    )


def at_most(
    about: str, interval: Any, bound: float, what: str, tolerance: float = MARGIN, **evidence: Any
) -> Finding:
    """An upper bound, O and not Θ: SUPPORTED where the whole interval lies below it.

    Of intervals by condition, a mapping, the worst verdict counts, and the tightest is told.
    """
    if isinstance(interval, Mapping):
        return _by_condition(
            interval,
            lambda label, i: at_most(about, i, bound, f"{what}, {label}", tolerance, **evidence),
            lambda label, i: -i.high,
        )
    if interval.high <= bound + tolerance:
        verdict = Verdict.SUPPORTED
    else:
        above = interval.low > bound + tolerance
        verdict = Verdict.REFUTED if above else Verdict.UNDECIDED
    because = f"{what}: {text(interval)}, held against at most {bound:g} + {tolerance:g}"
    return Finding(about, verdict, because, {"interval": numbers(interval), **evidence})


def worst(found: Iterable[Finding]) -> Finding:
    """The finding with the worst verdict: what holds under all conditions holds there."""
    return min(found, key=lambda f: WORST_FIRST.index(f.verdict))


def _by_condition(
    intervals: Mapping[str, Any],
    judged: Callable[[str, Any], Finding],
    slack: Callable[[str, Any], float],
) -> Finding:
    """The worst finding; of equal ones the one with the least slack between interval and bound."""

    def left(item: tuple[str, Any]) -> float:
        room = slack(*item)
        return -math.inf if math.isnan(room) else room  # NaN decides nothing: it comes first

    found = worst(judged(*item) for item in sorted(intervals.items(), key=left))
    every = {"by condition": {k: numbers(v) for k, v in intervals.items()}}
    return replace(found, evidence={**found.evidence, **every})


def agrees(interval: Any, value: float = 1.0) -> bool:
    """Whether a sampled mean lies within twice its interval's half-width of an exact value."""
    return bool(abs(interval.estimate - value) <= 2 * (interval.high - interval.estimate))


def text(interval: Any) -> str:
    """An interval for people."""
    return f"{interval.estimate:.3g} [{interval.low:.3g}, {interval.high:.3g}]"


def numbers(interval: Any) -> list[float]:
    """Estimate, low and high for JSON."""
    return [interval.estimate, interval.low, interval.high]
