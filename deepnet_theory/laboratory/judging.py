"""From measured values to verdicts: exponents in depth, sizes, and premises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from deepnet_theory.definitions.assumption import Assumption
from deepnet_theory.definitions.measurement import (
    AssumptionResult,
    Exponent,
    Prediction,
    Predictions,
)
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.selection import MAX_LAYERS, Selection
from deepnet_theory.laboratory.case import NEAR, Case
from deepnet_theory.laboratory.one_sublayer import distance_from_identity, predict_shares
from deepnet_theory.laboratory.settings import FEWEST, Depth, depth_key
from deepnet_theory.laboratory.statistics import (
    TOLERANCE,
    Array,
    Interval,
    exponent_of,
    fit_exponent,
    judge,
    positive_interval,
    slopes,
    t_interval,
    to_decide,
    what_decides,
)

LEVEL = 0.05  # a size within this share of the prediction is equivalent to it
WORST_FIRST = (Verdict.REFUTED, Verdict.UNDECIDED, Verdict.SUPPORTED)


def ratio_interval(measured: Array, predicted: Array) -> Interval:
    r"""Measured over predicted, paired by seed, with an interval made in logarithms.

    .. math:: \exp\Bigl(\overline{\log(b/\hat b)} \pm t_{n-1}\,s/\sqrt n\Bigr)
    """
    logs = _log_ratio(measured, predicted)
    with np.errstate(over="ignore"):
        estimate, low, high = (float(np.exp(x)) for x in logs.numbers)
    return Interval(estimate, low, high, logs.samples)


def _log_ratio(measured: Array, predicted: Array) -> Interval:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return t_interval(np.log(measured / predicted))


def judge_level(
    depths: Sequence[Depth], measured: Array, expected: Array, identity: Array
) -> AssumptionResult | None:
    """The verdict on the sizes at every depth, (seeds, depths): that of the worst one.

    SUPPORTED where the ratio's interval lies within ``LEVEL`` of 1, REFUTED beyond, else UNDECIDED,
    and where the prediction's blocks are far from the ``identity``, by S·r². None without a depth.
    """
    levels = []
    for index, depth in enumerate(depths):
        ratio = ratio_interval(measured[:, index], expected[:, index])
        distance = float(identity[:, index].mean())
        place = ", ".join(f"{symbol} = {n}" for symbol, n in depth.items())
        because = f"measured/predicted at {place}: {ratio.low:.3f} to {ratio.high:.3f}"
        verdict = Verdict.UNDECIDED
        if not math.isfinite(ratio.estimate):
            because = f"nothing finite at {depth_key(depth)}"
        elif not distance <= NEAR:
            because += f"; the prediction ends before: S·r² = {distance:.3g} is above {NEAR:g}"
        elif (verdict := ratio.verdict(1 - LEVEL, 1 + LEVEL)) is Verdict.UNDECIDED:
            logs = _log_ratio(measured[:, index], expected[:, index])
            more = what_decides(logs, math.log(1 - LEVEL), math.log(1 + LEVEL))
            because += f"; it must lie inside 1 ± {LEVEL:g}, or beyond it, to decide; {more}"
        else:
            where = "inside" if verdict is Verdict.SUPPORTED else "beyond"
            because += f", {where} 1 ± {LEVEL:g}"
        levels.append(AssumptionResult("level", verdict, *ratio.numbers, because=because))

    def severity(level: AssumptionResult) -> tuple[int, float]:
        ratio = level.estimate or 0.0
        far = abs(math.log(ratio)) if 0 < ratio < math.inf else math.inf
        return WORST_FIRST.index(level.verdict), -far

    return min(levels, key=severity, default=None)


def judge_assumption(
    assumption: Assumption,
    depths: Sequence[int],
    values: Array,
    groups: Sequence[object] | None = None,
) -> AssumptionResult:
    """Test exactly the criteria that ``assumption`` gives against ``values`` (seeds, depths).

    Slopes within the tolerance of exponents; a ceiling or a floor at every depth, by the interval
    over seeds. Shown is the slope, else the value nearest to failing. Without criteria: ASSUMED.
    """
    judged: list[tuple[Verdict, str]] = []
    shown: Interval | None = None
    if assumption.slope is not None or assumption.slope_at_most is not None:
        shown, start = _slope(depths, values, groups)
        since = f" (from {start} layers)" if start > min(depths) else ""
        if assumption.slope is not None:
            verdict, because = judge(shown, assumption.slope)
            if verdict is Verdict.UNDECIDED:
                since += f"; {to_decide(shown, assumption.slope)}".rstrip("; ")
            judged.append((verdict, f"exponent in depth {because}{since}"))
        if assumption.slope_at_most is not None:
            judged.append(_ceiling(shown, assumption.slope_at_most + TOLERANCE, f"exponent{since}"))
    for word, bound, sign in (("most", assumption.at_most, 1), ("least", assumption.at_least, -1)):
        if bound is None:
            continue
        # what is nowhere negative is a size or a share of one
        interval = t_interval if (values < 0).any() else positive_interval
        points = [interval(column) for column in values.T]
        worst = max(points, key=lambda p: sign * p.estimate if math.isfinite(p.estimate) else 1e99)
        band = (-math.inf, bound) if sign > 0 else (bound, math.inf)
        verdict = worst.verdict(*band) if math.isfinite(worst.estimate) else Verdict.UNDECIDED
        because = (
            f"{worst.estimate:.3g} [{worst.low:.3g}, {worst.high:.3g}] at "
            f"{depths[points.index(worst)]} layers, where at {word} {bound:g} is assumed"
        )
        judged.append((verdict, because + _advice(verdict, worst, bound)))
        shown = worst if shown is None else shown
    if not judged:
        shown, _ = _slope(depths, values, groups)
        judged.append((Verdict.ASSUMED, "no criterion is given; the exponent in depth is shown"))
    assert shown is not None
    verdict = min((v for v, _ in judged), key=[*WORST_FIRST, Verdict.ASSUMED].index)
    because = "; ".join(because for _, because in judged)
    return AssumptionResult(assumption.name, verdict, *shown.numbers, assumption.statement, because)


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
    if not math.isfinite(interval.estimate):
        return Verdict.UNDECIDED, f"{what}: nothing finite was measured"
    verdict = interval.verdict(-math.inf, ceiling)
    verb = {Verdict.SUPPORTED: "is at most", Verdict.REFUTED: "is above"}.get(
        verdict, "reaches above"
    )
    shown = f"{what} [{interval.low:+.3f}, {interval.high:+.3f}] {verb} {ceiling:g}"
    return verdict, shown + _advice(verdict, interval, ceiling)


def _advice(verdict: Verdict, interval: Interval, edge: float) -> str:
    """How many seeds would decide what is UNDECIDED, behind a semicolon."""
    more = what_decides(interval, edge) if verdict is Verdict.UNDECIDED else ""
    return f"; {more}" if more else ""


DEEP = (MAX_LAYERS // 16, MAX_LAYERS)  # the powers are read off between these


def power_deep_down(
    case_at: Callable[[Depth], Case], depth: Depth, symbols: Sequence[str]
) -> float | None:
    """The power that the prediction has far beyond the measured depths.

    At two great depths the share of each kind of parameter is one power of the depth, and the
    largest leads. None where the stack there is not near the identity, or the rule has no value.
    """
    try:
        cases = [case_at({**depth, **dict.fromkeys(symbols, n)}) for n in DEEP]
        if any(max(distance_from_identity(case)) > NEAR for case in cases):
            return None
        shallow, deep = ({k: u.mean for k, u in predict_shares(case).items()} for case in cases)
    except InputError:  # the rule has no value there
        return None
    moved = [key for key in deep if deep[key] > 0 and shallow[key] > 0]
    powers = [math.log(deep[key] / shallow[key]) / math.log(DEEP[1] / DEEP[0]) for key in moved]
    return max(powers, default=None)


ALL = "all"


@dataclass(frozen=True)
class Plan:
    """One exponent to be fitted; ``total`` where all depths grow together and exponents add."""

    prediction: Prediction
    total: bool

    def groups(self, depths: Sequence[Depth]) -> list[object]:
        if self.total:
            return [None] * len(depths)
        variable = self.prediction.variable
        return [tuple(n for s, n in d.items() if s != variable) for d in depths]


def plan_exponents(
    selection: Selection, predictions: Predictions, depths: Sequence[Depth]
) -> list[Plan]:
    """Which exponents these depths can give.

    One in N needs two depths that differ in N alone; where all have one ratio of N to M, the sum
    of both is fitted. Raises :class:`InputError` where the depths give neither.
    """
    symbols = selection.the_stack.depths
    given = predictions.exponents or tuple(Prediction(s, ALL, None) for s in symbols)
    free = [s for s in symbols if varies_alone(s, depths)]
    if free:
        alone = [Plan(p, total=False) for p in given if p.variable in free]
        if alone:
            return alone
    ratios = {Fraction(*d.values()) for d in depths} if len(symbols) == 2 else set()
    if len(depths) < 2 or len(ratios) != 1:
        shown = ", ".join(depth_key(d) for d in depths)
        raise InputError(
            f"the depths {shown} give no exponent: two that differ in "
            f"{' or in '.join(symbols)} alone are needed"
            + (", or equal ratios of N to M" if len(symbols) == 2 else "")
        )
    return [Plan(_sum_of(p, given), total=True) for p in given if p.variable == symbols[0]]


def varies_alone(symbol: str, depths: Sequence[Depth]) -> bool:
    seen: dict[tuple[int, ...], set[int]] = {}
    for d in depths:
        others = tuple(n for s, n in d.items() if s != symbol)
        seen.setdefault(others, set()).add(d[symbol])
    return any(len(values) > 1 for values in seen.values())


def _sum_of(first: Prediction, given: Sequence[Prediction]) -> Prediction:
    """The prediction where all depths grow together: exponents of the same share add."""
    same = [p for p in given if p.share == first.share]
    exponents = [p.exponent for p in same]
    total = None if None in exponents else sum((e for e in exponents if e), Fraction(0))
    by_name = [dict(p.rivals) for p in same]
    rivals = tuple((n, sum((r[n] for r in by_name), Fraction(0))) for n in by_name[0])
    return Prediction(first.variable, first.share, total, rivals)


class Here(NamedTuple):
    """The slope that single sublayers predict over the measured depths, and how far off it is."""

    slope: float
    off: Interval  # measured minus predicted, paired by seed


def slope_here(plan: Plan, depths: Sequence[Depth], values: Array, expected: Array) -> Here | None:
    """The predicted slope over all measured depths; None where it is not finite."""
    good = (np.isfinite(values) & (values > 0) & np.isfinite(expected) & (expected > 0)).all(1)
    if not good.any():
        return None
    layers = np.log([float(d[plan.prediction.variable]) for d in depths])
    groups = plan.groups(depths)
    predicted = slopes(layers, np.log(expected[good]), groups)
    measured = slopes(layers, np.log(values[good]), groups)
    return Here(float(predicted.mean()), t_interval(measured - predicted))


def judge_exponent(
    plan: Plan,
    depths: Sequence[Depth],
    values: Array,
    wanted: int,
    expected: Array | None = None,
    deep_down: Callable[[], float | None] = lambda: None,
) -> Exponent:
    """The exponent of ``values`` (seeds, depths), measured at these of the ``wanted`` depths.

    A slope off the exponent is SUPPORTED where it is the one ``expected`` from single sublayers
    over these depths, which has the exponent ``deep_down``; too blunt for that, it does not
    refute either. A seed that was not finite takes SUPPORTED to UNDECIDED, missing depths any
    verdict.
    """
    prediction = plan.prediction
    variable, share = prediction.variable, prediction.share
    predicted = None if prediction.exponent is None else float(prediction.exponent)
    rivals = tuple((name, float(e)) for name, e in prediction.rivals)
    if not (len(depths) > 1 if plan.total else varies_alone(variable, depths)):
        nothing, because = Interval(math.nan, math.nan, math.nan), "too few depths were measured"
        return exponent_of(
            variable, share, nothing, predicted, Verdict.UNDECIDED, because, rivals=rivals, more=""
        )
    fit = fit_exponent([d[variable] for d in depths], values, plan.groups(depths))
    verdict, because = judge(fit.interval, predicted, rivals)
    if not values.any():
        because = "the step moves nothing: an update as large as a parameter leaves 0 where it is"
    here = None if expected is None else slope_here(plan, depths, values, expected)
    if here is not None:
        because += f"; single sublayers predict {here.slope:+.3f} over these depths"
        if verdict is not Verdict.SUPPORTED and predicted is not None:
            verdict, reason = _by_prediction(verdict, here, predicted, rivals, deep_down)
            because += reason
    if plan.total:
        because = f"all depths grow together, so the exponents add; {because}"
    lost = values.shape[0] - len(fit.per_seed)
    if lost:
        because += f"; {lost} of {values.shape[0]} seeds were not finite and are left out"
    if few := len(depths) < wanted:
        because += f"; only {len(depths)} of {wanted} depths were measured"
    if few or (verdict is Verdict.SUPPORTED and lost):
        verdict = Verdict.UNDECIDED
    return exponent_of(
        variable, share, fit.interval, predicted, verdict, because, rivals=rivals,
        fitted_from=fit.fitted_from,
        here=None if here is None else here.slope,
        more="" if few else None,  # more seeds would not decide it
    )  # fmt: skip


def _by_prediction(
    verdict: Verdict,
    here: Here,
    predicted: float,
    rivals: Sequence[tuple[str, float]],
    deep_down: Callable[[], float | None],
) -> tuple[Verdict, str]:
    """The verdict where the measured slope is not the exponent's, and what is said of it."""
    off = here.off
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
    prediction: Prediction,
    places: Sequence[Depth],
    values: Array,
    tokens: int,
) -> Exponent:
    """The exponent of ``values`` (seeds, places) in one symbol, the others held fixed.

    In d it is fitted from ``LEAST`` on, where enough widths are left. With ``tokens`` above a
    ``FEW``-th of the width, what is off by up to ``APART`` may be theirs: UNDECIDED.
    """
    symbol, groups = prediction.variable, Plan(prediction, total=False).groups(places)
    numbers, widths = (np.array([place[name] for place in places]) for name in (symbol, "d"))
    kept = widths >= LEAST
    if len({*widths[kept].tolist()}) < FEWEST:
        kept[:] = True
    narrow = widths[kept].min()

    held = [group for group, inside in zip(groups, kept, strict=True) if inside]
    fit = fit_exponent(numbers[kept].tolist(), values[:, kept], held)
    predicted = None if prediction.exponent is None else float(prediction.exponent)
    verdict, because = judge(fit.interval, predicted, tolerance=WIDE_TOLERANCE)
    more = to_decide(fit.interval, predicted, tolerance=WIDE_TOLERANCE)
    if not values.any():
        because = "the update moves nothing: it leaves 0 where it is"
    elif (
        verdict is Verdict.REFUTED
        and predicted is not None
        and tokens * FEW > narrow
        and not fit.interval.outside(
            predicted - APART - WIDE_TOLERANCE, predicted + APART + WIDE_TOLERANCE
        )
    ):
        verdict, low, high = Verdict.UNDECIDED, fit.interval.low, fit.interval.high
        because = (
            f"[{low:+.3f}, {high:+.3f}] is off {predicted:+g} ± {WIDE_TOLERANCE:g} by no more than "
            f"{tokens} tokens can make it beside a width of {narrow}"
        )
        more = "fewer tokens or larger widths would decide, not more seeds"
    return exponent_of(
        symbol, prediction.share, fit.interval, predicted, verdict, because,
        tolerance=WIDE_TOLERANCE,
        more=more,
        fitted_from=fit.fitted_from,
    )  # fmt: skip


def verdict_on(exponents: Sequence[Exponent]) -> Verdict:
    """The worst verdict of all exponents, UNDECIDED where there is none."""
    return min((e.verdict for e in exponents), key=WORST_FIRST.index, default=Verdict.UNDECIDED)
