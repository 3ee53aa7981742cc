"""From a measured assumption to its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deepnet_theory.numeric.judging.statistics import (
    TOLERANCE,
    Array,
    Interval,
    fit_exponent,
    judge,
    positive_interval,
    t_interval,
)
from deepnet_theory.spec.assumption import Assumption
from deepnet_theory.spec.results.verification import AssumptionResult
from deepnet_theory.spec.verdict import Verdict

WORST_FIRST = (Verdict.REFUTED, Verdict.UNDECIDED, Verdict.SUPPORTED)


def judge_assumption(
    assumption: Assumption,
    depths: Sequence[int],
    values: Array,
    groups: Sequence[object] | None = None,
) -> AssumptionResult:
    """Test exactly the criteria that ``assumption`` gives against ``values`` (seeds, depths).

    Slopes are tested within the tolerance of exponents; a ceiling or a floor must hold at
    every depth, by the interval over seeds. The estimate shown is the slope where one is
    tested, else the value at the depth where the criterion is nearest to failing. An
    assumption without criteria is ASSUMED, with what was measured beside it.
    """
    found: list[tuple[Verdict, str]] = []
    shown: Interval | None = None
    if assumption.slope is not None or assumption.slope_at_most is not None:
        shown, start = _slope(depths, values, groups)
        since = f" (from {start} layers)" if start > min(depths) else ""
        if assumption.slope is not None:
            verdict, because = judge(shown, assumption.slope)
            found.append((verdict, f"exponent in depth {because}{since}"))
        if assumption.slope_at_most is not None:
            found.append(_ceiling(shown, assumption.slope_at_most + TOLERANCE, "exponent" + since))
    for bound, sign, word in ((assumption.at_most, 1, "most"), (assumption.at_least, -1, "least")):
        if bound is None:
            continue
        # what is nowhere negative is a size or a share of one
        interval = t_interval if (values < 0).any() else positive_interval
        points = [interval(column) for column in values.T]
        worst = max(points, key=lambda p: sign * p.estimate if math.isfinite(p.estimate) else 1e99)
        flipped = worst if sign > 0 else Interval(-worst.estimate, -worst.high, -worst.low)
        verdict, _ = _ceiling(flipped, sign * bound, "")
        place = depths[points.index(worst)]
        found.append(
            (
                verdict,
                f"{worst.estimate:.3g} [{worst.low:.3g}, {worst.high:.3g}] at {place} layers, "
                f"where at {word} {bound:g} is assumed",
            )
        )
        shown = worst if shown is None else shown
    if not found:
        shown, _ = _slope(depths, values, groups)
        found.append((Verdict.ASSUMED, "no criterion is given; the exponent in depth is shown"))
    assert shown is not None
    verdict = min((v for v, _ in found), key=[*WORST_FIRST, Verdict.ASSUMED].index)
    return AssumptionResult(
        name=assumption.name,
        verdict=verdict,
        estimate=shown.estimate,
        low=shown.low,
        high=shown.high,
        statement=assumption.statement,
        because="; ".join(because for _, because in found),
    )


def _slope(
    depths: Sequence[int], values: Array, groups: Sequence[object] | None
) -> tuple[Interval, int]:
    if len(set(depths)) < 2:
        return Interval(math.nan, -math.inf, math.inf), min(depths)
    if np.isfinite(values).all() and not values.any():
        return Interval(0.0, 0.0, 0.0), min(depths)  # identically zero: does not grow
    fit = fit_exponent(depths, values, groups)
    return fit.interval, fit.fitted_from


def _ceiling(interval: Interval, ceiling: float, what: str) -> tuple[Verdict, str]:
    shown = f"{what} [{interval.low:+.3f}, {interval.high:+.3f}]"
    if not math.isfinite(interval.estimate):
        return Verdict.UNDECIDED, f"{what}: nothing finite was measured"
    if interval.high <= ceiling:
        return Verdict.SUPPORTED, f"{shown} is at most {ceiling:g}"
    if interval.low > ceiling:
        return Verdict.REFUTED, f"{shown} is above {ceiling:g}"
    return Verdict.UNDECIDED, f"{shown} reaches above {ceiling:g}"
