"""From measured values to verdicts: exponents in depth, sizes, and premises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.measurement import (
    AssumptionResult,
    Exponent,
    Predictions,
    prediction,
)
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.selection import MAX_LAYERS, Selection
from deepnet_theory.laboratory.model_update import ALL
from deepnet_theory.laboratory.one_sublayer import distance_from_identity, predict_shares
from deepnet_theory.laboratory.settings import FEWEST, Depth, depth_key
from deepnet_theory.laboratory.statistics import (
    CONFIDENCE,
    TOLERANCE,
    Array,
    Interval,
    fit_exponent,
    judge,
    positive_interval,
    slopes,
    t_interval,
)
from deepnet_theory.laboratory.trial import NEAR, Case

WORST_FIRST = (Verdict.REFUTED, Verdict.UNDECIDED, Verdict.SUPPORTED)


def judge_assumption(
    assumption: Assumption,
    places: Sequence[Depth],
    values: Array,
    confidence: float = CONFIDENCE,
) -> AssumptionResult:
    """Test the criterion that ``assumption`` gives against ``values`` (seeds, places).

    The exponent in the first depth that varies, within the tolerance of 0 or under a ceiling; or a
    floor at every place, by the interval over seeds. Shown is the exponent, else the lowest value.
    """
    if assumption.at_least is not None:
        points = [positive_interval(column, confidence) for column in values.T]
        shown = min(points, key=lambda p: p.estimate if math.isfinite(p.estimate) else -math.inf)
        what = f"the value at {depth_key(places[points.index(shown)])} layers"
        verdict, because = _bounded(shown, assumption.at_least, math.inf, what)
    else:
        variable = next((s for s in places[0] if varies_alone(s, places)), "")
        e = Exponent(variable, assumption.name, predicted=0.0, because="needs two depths")
        if variable:
            e = exponent_from(e, places, values, confidence=confidence)
        shown = Interval(e.estimate, e.low, e.high)
        verdict, because = e.verdict, f"exponent in depth {e.because}"
        if assumption.slope_at_most is not None:
            ceiling = assumption.slope_at_most + TOLERANCE
            verdict, because = _bounded(shown, -math.inf, ceiling, "exponent")
    return AssumptionResult(assumption.name, verdict, *shown.numbers, assumption.statement, because)


def _bounded(interval: Interval, low: float, high: float, what: str) -> tuple[Verdict, str]:
    """The verdict on an interval that should lie between two bounds, one of them infinite."""
    if not math.isfinite(interval.estimate):
        return Verdict.UNDECIDED, f"{what}: nothing finite was measured"
    verdict = interval.verdict(low, high)
    edge, side = (high, "at most") if low == -math.inf else (low, "at least")
    shown = f"[{interval.low:+.3f}, {interval.high:+.3f}]"
    return verdict, f"{what} {shown}, where {side} {edge:g} is assumed"


DEEP = (MAX_LAYERS // 16, MAX_LAYERS)  # the powers are read off between these


def power_deep_down(case: Case, symbol: str) -> float | None:
    """The power that the prediction has far beyond the measured depths.

    At two great depths the share of each kind of parameter is one power of the depth, and the
    largest leads. None where the stack there is not near the identity, or the rule has no value.
    """
    try:
        cases = [replace(case, depth={**case.depth, symbol: n}) for n in DEEP]
        if any(max(distance_from_identity(one)) > NEAR for one in cases):
            return None
        shallow, deep = map(predict_shares, cases)
    except InputError:  # the rule has no value there
        return None
    ratios = [one.mean / deep[key].mean for key, one in shallow.items() if deep[key].mean > 0]
    powers = [math.log(ratio) / math.log(DEEP[0] / DEEP[1]) for ratio in ratios if ratio > 0]
    return max(powers, default=None)


def plan_exponents(
    selection: Selection, predictions: Predictions, depths: Sequence[Depth]
) -> list[Exponent]:
    """The predictions that these depths can test: one in N needs two that differ in N alone.

    Raises :class:`InputError` where there is none.
    """
    symbols = selection.the_stack.depths
    given = predictions.exponents or tuple(prediction(s, ALL, None) for s in symbols)
    if tested := [p for p in given if varies_alone(p.variable, depths)]:
        return tested
    raise InputError(
        f"the depths {', '.join(map(depth_key, depths))} give no exponent: two that differ in "
        f"{' or in '.join(symbols)} alone are needed"
    )


def groups_of(variable: str, places: Sequence[Depth]) -> list[object]:
    """What else is varied, of each place: it is held fixed."""
    return [tuple(n for symbol, n in place.items() if symbol != variable) for place in places]


def varies_alone(symbol: str, places: Sequence[Depth]) -> bool:
    """Whether two places differ in this symbol alone."""
    seen = dict[object, set[int]]()
    for group, place in zip(groups_of(symbol, places), places, strict=True):
        seen.setdefault(group, set()).add(place[symbol])
    return any(len(values) > 1 for values in seen.values())


def exponent_from(
    asked: Exponent,
    places: Sequence[Depth],
    values: Array,
    tolerance: float = TOLERANCE,
    slack: Sequence[float] = (),
    confidence: float = CONFIDENCE,
) -> Exponent:
    """The exponent of ``values`` (seeds, places), judged; ``slack`` as in :func:`fit_exponent`."""
    numbers = [place[asked.variable] for place in places]
    fit = fit_exponent(numbers, values, groups_of(asked.variable, places), slack, confidence)
    verdict, because = judge(fit.interval, asked.predicted, asked.rivals, tolerance)
    if not values.any():
        because = "the step moves nothing: an update as large as a parameter leaves 0 where it is"
    if grid := fit.interval.slack:
        because += f"; the grid alone makes ±{grid:.3f}"
    estimate, low, high = fit.interval.numbers
    return replace(
        asked, estimate=estimate, low=low, high=high, verdict=verdict, because=because,
        fitted_from=fit.fitted_from, constant=fit.interval.within(-tolerance, tolerance),
    )  # fmt: skip


def slope_here(
    variable: str,
    depths: Sequence[Depth],
    values: Array,
    expected: Array,
    confidence: float = CONFIDENCE,
) -> tuple[float, Interval] | None:
    """The slope that single sublayers predict over the measured depths; None if not finite.

    Beside it, how far off it is: measured minus predicted, paired by seed.
    """
    good = (np.isfinite(values) & (values > 0) & np.isfinite(expected) & (expected > 0)).all(1)
    if not good.any():
        return None
    layers, groups = np.log([float(d[variable]) for d in depths]), groups_of(variable, depths)
    predicted = slopes(layers, np.log(expected[good]), groups)
    measured = slopes(layers, np.log(values[good]), groups)
    return float(predicted.mean()), t_interval(measured - predicted, confidence)


def judge_exponent(
    asked: Exponent,
    depths: Sequence[Depth],
    values: Array,
    wanted: int,
    expected: Array | None = None,
    deep_down: Callable[[], float | None] = lambda: None,
    confidence: float = CONFIDENCE,
) -> Exponent:
    """The exponent of ``values`` (seeds, depths), measured at these of the ``wanted`` depths.

    A slope off the exponent is SUPPORTED where it is the one ``expected`` from single sublayers
    over these depths, which has the exponent ``deep_down``; too blunt for that, it does not
    refute either. A seed that was not finite takes SUPPORTED to UNDECIDED, missing depths any
    verdict.
    """
    if not varies_alone(asked.variable, depths):
        return replace(asked, because="too few depths were measured")
    e = exponent_from(asked, depths, values, confidence=confidence)
    verdict, because = e.verdict, e.because
    here = None
    if expected is not None:
        here = slope_here(e.variable, depths, values, expected, confidence)
    if here is not None:
        because += f"; single sublayers predict {here[0]:+.3f} over these depths"
        if verdict is not Verdict.SUPPORTED and e.predicted is not None:
            verdict, reason = _by_prediction(verdict, here[1], e.predicted, e.rivals, deep_down)
            because += reason
    if lost := int((~(np.isfinite(values) & (values > 0)).all(1)).sum()):
        because += f"; {lost} of {len(values)} seeds were not finite and are left out"
    if few := len(depths) < wanted:
        because += f"; only {len(depths)} of {wanted} depths were measured"
    if few or (verdict is Verdict.SUPPORTED and lost):
        verdict = Verdict.UNDECIDED
    return replace(e, verdict=verdict, because=because, here=here and here[0])


def _by_prediction(
    verdict: Verdict,
    off: Interval,
    predicted: float,
    rivals: Sequence[tuple[str, float]],
    deep_down: Callable[[], float | None],
) -> tuple[Verdict, str]:
    """The verdict where the measured slope is not the exponent's, and the reason."""
    reason = f", the measured one is off by [{off.low:+.3f}, {off.high:+.3f}]"
    sharp = off.within(-TOLERANCE, TOLERANCE)
    blunt = not sharp and verdict is not Verdict.REFUTED
    if blunt or off.outside(-TOLERANCE, TOLERANCE):
        return verdict, reason
    like = [name for name, e in rivals if e != predicted and e - predicted in off]
    if sharp and like:
        return verdict, f"{reason}, which does not exclude the rival {like[0]}"
    deep = deep_down()
    if deep is None:
        return verdict, f"{reason}, but do not reach deeper down"
    reason += f"; deeper down they lead to {deep:+.2f}"
    leading = abs(deep - predicted) <= TOLERANCE
    if not leading or sharp:
        return Verdict.SUPPORTED if leading else verdict, reason
    shallow = f"these depths are too shallow to show {predicted:+g}, or to refute it"
    return Verdict.UNDECIDED, f"{reason}: {shallow}"


# ---- across the width ----

LEAST = 128  # the width that exponents are fitted from, where three are not narrower
FEW = 8  # widths a token: sign(g) of T tokens acts as n·sqrt(2/(πT)) beside its noise, sqrt(n)
WIDE_TOLERANCE = 0.1  # exponents of two laws differ by a half; finite widths by less than this
APART = 0.5  # the exponents at full and at no alignment; many tokens lie between


def judge_power(
    asked: Exponent, places: Sequence[Depth], values: Array, tokens: int,
    confidence: float = CONFIDENCE,
) -> Exponent:  # fmt: skip
    """The exponent of ``values`` (seeds, places) in one symbol, the others held fixed.

    In d it is fitted from ``LEAST`` on, where enough widths are left. With ``tokens`` above a
    ``FEW``-th of the width, what is off by up to ``APART`` may be theirs: UNDECIDED.
    """
    kept = [i for i, place in enumerate(places) if place["d"] >= LEAST]
    if len({places[i]["d"] for i in kept}) < FEWEST:
        kept = [*range(len(places))]
    narrow = min(places[i]["d"] for i in kept)
    measured = [places[i] for i in kept], values[:, kept]
    e = exponent_from(asked, *measured, WIDE_TOLERANCE, confidence=confidence)
    far = APART + WIDE_TOLERANCE
    near = e.predicted is not None and e.low <= e.predicted + far and e.high >= e.predicted - far
    if e.verdict is not Verdict.REFUTED or tokens * FEW <= narrow or not near:
        return e
    because = (
        f"[{e.low:+.3f}, {e.high:+.3f}] is off {e.predicted:+g} ± {WIDE_TOLERANCE:g} by no more "
        f"than {tokens} tokens can make it beside a width of {narrow}: take fewer, or larger widths"
    )
    return replace(e, verdict=Verdict.UNDECIDED, because=because)


def verdict_on(exponents: Sequence[Exponent]) -> Verdict:
    """The worst verdict of all exponents, UNDECIDED where there is none."""
    return min((e.verdict for e in exponents), key=WORST_FIRST.index, default=Verdict.UNDECIDED)
