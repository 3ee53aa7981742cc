"""From truth values and intervals to a verdict on the part of a claim that asks for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from deepnet_theory.definitions.outcome import Verdict
from paper_checks.shared.claim import WORST_FIRST, Finding
from paper_checks.shared.fitting import Fit
from paper_checks.shared.later import numeric
from paper_checks.shared.record import ASSUMED, MARGIN, PROVED, REFUTED, SUPPORTED, UNDECIDED

if TYPE_CHECKING:
    from paper_checks.shared.numeric import Interval

    Measured: TypeAlias = Interval | Fit
    ByCondition: TypeAlias = Measured | Mapping[str, Interval] | Mapping[str, Fit]

Rivals: TypeAlias = tuple[tuple[str, float], ...]


def told(verdict: Verdict, because: str, /, **evidence: Any) -> Finding:
    """A finding on the part that asks: its label stands beside it and is added there."""
    return Finding("", verdict, because, evidence)


def proved(holds: bool, because: str, /, **evidence: Any) -> Finding:
    """PROVED where an exact check holds, else REFUTED.

    Exact is algebra, or an identity at random points to rounding; draws may only stand beside it.
    """
    return told(PROVED if holds else REFUTED, because, **evidence)


def seen(holds: bool, because: str, /, **evidence: Any) -> Finding:
    """SUPPORTED where every measured point agrees, else REFUTED."""
    return told(SUPPORTED if holds else REFUTED, because, **evidence)


def undecided(because: str, /, **evidence: Any) -> Finding:
    """UNDECIDED: not tested here, or not where the sentence lives."""
    return told(UNDECIDED, because, **evidence)


def assumed(because: str, /, **evidence: Any) -> Finding:
    """ASSUMED: outside what can be run here."""
    return told(ASSUMED, because, **evidence)


def within(
    measured: ByCondition, /, low: float, high: float, what: str, **evidence: Any
) -> Finding:
    """SUPPORTED where the whole interval lies in [low, high], REFUTED where it lies outside.

    Of intervals by condition, a mapping, the worst verdict counts, and the tightest is reported.
    """

    def judge(i: Interval, where: str) -> tuple[Verdict, str]:
        because = f"{what}{where}: {text(i)}, held against [{low:g}, {high:g}]"
        if i.within(low, high):
            return SUPPORTED, because
        return REFUTED if i.outside(low, high) else UNDECIDED, because

    return _worst_of(measured, judge, lambda i, _: min(i.low - low, high - i.high), evidence)


def ratio(measured: ByCondition, /, what: str, **evidence: Any) -> Finding:
    """What should be 1, :func:`within` the margin."""
    return within(measured, 1 - MARGIN, 1 + MARGIN, what, **evidence)


def exponent(
    measured: ByCondition,
    /,
    predicted: float | Mapping[str, float],
    rivals: Rivals = (),
    tolerance: float = MARGIN,
    what: str = "exponent",
    **evidence: Any,
) -> Finding:
    """An exponent against its prediction and its rivals, by the laboratory's own test.

    Of intervals by condition, a mapping, the worst verdict counts, and the tightest is reported;
    the predictions may be by condition too.
    """

    def wanted(where: str) -> float:
        return predicted[where.removeprefix(", ")] if isinstance(predicted, Mapping) else predicted

    def judge(i: Interval, where: str) -> tuple[Verdict, str]:
        verdict, because = numeric.judge(i, wanted(where), rivals, tolerance)
        return verdict, f"{what}{where}: {because}"

    def slack(i: Interval, where: str) -> float:
        return -max(abs(i.low - wanted(where)), abs(i.high - wanted(where)))

    return _worst_of(measured, judge, slack, {"predicted": predicted, **evidence})


def at_most(
    measured: ByCondition, /, bound: float, what: str, tolerance: float = MARGIN, **evidence: Any
) -> Finding:
    """An upper bound, O and not Θ: SUPPORTED where the whole interval lies below it.

    Of intervals by condition, a mapping, the worst verdict counts, and the tightest is reported.
    """

    def judge(i: Interval, where: str) -> tuple[Verdict, str]:
        because = f"{what}{where}: {text(i)}, held against at most {bound:g} + {tolerance:g}"
        if i.high <= bound + tolerance:
            return SUPPORTED, because
        return REFUTED if i.low > bound + tolerance else UNDECIDED, because

    return _worst_of(measured, judge, lambda i, _: -i.high, evidence)


def at_least(measured: ByCondition, /, bound: float, what: str, **evidence: Any) -> Finding:
    """A lower bound: :func:`within` all that is above it."""
    return within(measured, bound, math.inf, what, **evidence)


def worst(*found: Finding) -> Finding:
    """The finding with the worst verdict: what holds under all conditions holds there."""
    return min(found, key=lambda f: WORST_FIRST.index(f.verdict))


def text(interval: Interval) -> str:
    """An interval for people."""
    return f"{interval.estimate:.3g} [{interval.low:.3g}, {interval.high:.3g}]"


def numbers(measured: Measured) -> Any:
    """Estimate, low and high for JSON; of a fit its points, too."""
    if isinstance(measured, Fit):
        return measured.to_dict()
    return [measured.estimate, measured.low, measured.high]


def _worst_of(
    measured: ByCondition,
    judge: Callable[[Interval, str], tuple[Verdict, str]],
    slack: Callable[[Interval, str], float],
    evidence: Mapping[str, Any],
) -> Finding:
    """The worst finding; of equal ones the one with the least slack between interval and bound."""
    if not isinstance(measured, Mapping):
        verdict, because = judge(_interval(measured), "")
        return told(verdict, because, interval=numbers(measured), **evidence)
    if not measured:
        raise ValueError("nothing was measured under any condition")

    def left(item: tuple[str, Measured]) -> float:
        room = slack(_interval(item[1]), f", {item[0]}")
        return -math.inf if math.isnan(room) else room  # NaN decides nothing: it comes first

    judged = [
        told(*judge(_interval(one), f", {label}"), interval=numbers(one))
        for label, one in sorted(measured.items(), key=left)
    ]
    found = worst(*judged)
    every = {label: numbers(one) for label, one in measured.items()}
    return replace(found, evidence={**found.evidence, **evidence, "by condition": every})


def _interval(measured: Measured) -> Interval:
    return measured.interval if isinstance(measured, Fit) else measured
