"""Which exponents the depths can give, and each one's verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from deepnet_theory.numeric.judging.arrival import Arrival
from deepnet_theory.numeric.judging.statistics import (
    TOLERANCE,
    Array,
    Interval,
    fit_exponent,
    judge,
    slopes,
    t_interval,
)
from deepnet_theory.numeric.measuring.model_update import LINEAR, ModelUpdate
from deepnet_theory.numeric.stacks.depths import Depth, depth_key
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.results.prediction import Prediction, Predictions
from deepnet_theory.spec.results.verification import Exponent
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.verdict import Verdict

ALL = "all"


@dataclass(frozen=True)
class Plan:
    """One exponent to be fitted; ``total`` where all depths grow together and exponents add."""

    prediction: Prediction
    total: bool

    def groups(self, depths: Sequence[Depth]) -> list[object]:
        """The depths that are held fixed, for each point."""
        if self.total:
            return [None] * len(depths)
        variable = self.prediction.variable
        return [tuple(n for s, n in d.items() if s != variable) for d in depths]


def plan_exponents(
    selection: Selection, predictions: Predictions, depths: Sequence[Depth]
) -> list[Plan]:
    """Which exponents these depths can give.

    An exponent in N needs two depths that differ in N alone. Where every depth has the same
    ratio of N to M the sum of both exponents is fitted, as one exponent in N. Raises
    :class:`InputError` where the depths give neither.
    """
    symbols = selection.the_stack.depths
    given = predictions.exponents or tuple(Prediction(s, ALL, None) for s in symbols)
    free = [s for s in symbols if varies_alone(s, depths)]
    if free:
        found = [Plan(p, total=False) for p in given if p.variable in free]
        if found:
            return found
    ratios = {Fraction(*d.values()) for d in depths} if len(symbols) == 2 else set()
    if len(depths) < 2 or len(ratios) != 1:
        shown = ", ".join(depth_key(d) for d in depths)
        raise InputError(
            f"the depths {shown} give no exponent: two that differ in "
            f"{' or in '.join(symbols)} alone are needed"
            + (", or equal ratios of N to M" if len(symbols) == 2 else "")
        )
    return [Plan(_sum_of(p, given), total=True) for p in given if p.variable == symbols[0]]


def after(plan: Plan, share: str) -> Plan:
    """The plan of the same slope for what the theory predicts no exponent of."""
    return replace(plan, prediction=Prediction(plan.prediction.variable, share, None))


def varies_alone(symbol: str, depths: Sequence[Depth]) -> bool:
    """Whether two of the depths differ in this one and in no other."""
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


@dataclass(frozen=True)
class Here:
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
    updates: Sequence[ModelUpdate],
    wanted: int,
    expected: Array | None = None,
    arrival: Callable[[float], Arrival | None] = lambda _: None,
) -> Exponent:
    """The exponent of ``values`` (seeds, depths), measured at these of the ``wanted`` depths.

    A slope that has not arrived at the exponent is SUPPORTED where it is the one that is
    ``expected`` over these depths from single sublayers, and that prediction has an ``arrival`` at
    the exponent deeper down; where the measurement is not sharp enough for that, such a slope does
    not refute the exponent either. SUPPORTED falls to UNDECIDED where a step of the fitted depths
    was not linear or a seed was not finite, and any verdict where depths are missing.
    """
    prediction = plan.prediction
    variable, share = prediction.variable, prediction.share
    predicted = None if prediction.exponent is None else float(prediction.exponent)
    rivals = tuple((name, float(e)) for name, e in prediction.rivals)
    if not (varies_alone(variable, depths) if not plan.total else len(depths) > 1):
        because = "too few depths were measured"
        nan = math.nan
        return Exponent(
            variable, share, nan, nan, nan, predicted, Verdict.UNDECIDED, because, rivals=rivals
        )
    fit = fit_exponent([d[variable] for d in depths], values, plan.groups(depths))
    verdict, because = judge(fit.interval, predicted, rivals)
    if not values.any():
        because = "the step moves nothing: an update as large as a parameter leaves 0 where it is"
    here = None if expected is None else slope_here(plan, depths, values, expected)
    if here is not None:
        because += f"; single sublayers predict {here.slope:+.3f} over these depths"
        if verdict is not Verdict.SUPPORTED and predicted is not None:
            verdict, told = _by_prediction(verdict, here, predicted, rivals, arrival, variable)
            because += told
    if plan.total:
        because = f"all depths grow together, so the exponents add; {because}"
    fitted = [u for u in updates if u.depth[variable] >= fit.fitted_from]
    bent = [u for u in fitted if not u.second_order < LINEAR]
    if verdict is Verdict.SUPPORTED and bent:
        verdict = Verdict.UNDECIDED
        because += f"; but at depth {depth_key(bent[0].depth)} the step was not linear"
    lost = values.shape[0] - len(fit.per_seed)
    if lost:
        because += f"; {lost} of {values.shape[0]} seeds were not finite and are left out"
        verdict = Verdict.UNDECIDED if verdict is Verdict.SUPPORTED else verdict
    if len(depths) < wanted:
        because += f"; only {len(depths)} of {wanted} depths were measured"
        verdict = Verdict.UNDECIDED
    return Exponent(
        variable=variable,
        share=share,
        estimate=fit.interval.estimate,
        low=fit.interval.low,
        high=fit.interval.high,
        predicted=predicted,
        verdict=verdict,
        because=because,
        fitted_from=fit.fitted_from,
        rivals=rivals,
        constant=fit.interval.within(-TOLERANCE, TOLERANCE),
        here=None if here is None else here.slope,
    )


def _by_prediction(
    verdict: Verdict,
    here: Here,
    predicted: float,
    rivals: Sequence[tuple[str, float]],
    arrival: Callable[[float], Arrival | None],
    variable: str,
) -> tuple[Verdict, str]:
    """The verdict where the measured slope is not the exponent's, and what is said of it."""
    off = f"the measured one is off by [{here.off.low:+.3f}, {here.off.high:+.3f}]"
    if here.off.outside(-TOLERANCE, TOLERANCE):
        return verdict, f", {off}"
    sharp = here.off.within(-TOLERANCE, TOLERANCE)
    if not sharp and verdict is not Verdict.REFUTED:
        return verdict, f", {off}"
    like = [name for name, e in rivals if e != predicted and e - predicted in here.off]
    if sharp and like:
        return verdict, f", {off}, which does not exclude the rival {like[0]}"
    found = arrival(predicted)
    if found is None:
        return verdict, f", {off}, but do not reach deeper down"
    if not found.leading:
        return verdict, f", {off}; {found.words(variable)}"
    if not sharp:
        told = f"these depths are too shallow to show {predicted:+g}, or to refute it"
        return Verdict.UNDECIDED, f", {off}; {found.words(variable)}: {told}"
    return Verdict.SUPPORTED, f", {off}; {found.words(variable)}"
