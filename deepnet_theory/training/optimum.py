"""From losses against learning rates to curves, the best rate, its exponent, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from deepnet_theory.numeric.depths import Depth, depth_key
from deepnet_theory.numeric.judging import WORST_FIRST, varies_alone
from deepnet_theory.numeric.statistics import (
    Array,
    Interval,
    fit_exponent,
    judge,
    slopes,
    t_interval,
    to_decide,
)
from deepnet_theory.spec.results.measurement import Exponent
from deepnet_theory.spec.results.training import ClosureTransfer, Cost, Curve
from deepnet_theory.spec.verdict import Verdict

TOLERANCE = 1 / 16  # a best rate whose exponent in depth lies within it transfers
MATERIAL = 0.1  # of what the shallowest stack has learnt: more than that is lost, not noise
BELOW, ABOVE = "below", "above"

Losses = tuple[float, ...]  # one a seed


@dataclass(frozen=True)
class Optimum:
    """The best rate of a curve, the loss there, ``slack`` in log η; NaN ``outside`` on a side."""

    rate: float
    loss: float
    outside: str = ""
    slack: float = 0.0


def best_rate(rates: Sequence[float], losses: Sequence[float], baseline: float) -> Optimum:
    r"""The vertex of the parabola in :math:`\log\eta` through the least loss and its neighbours.

    These always enclose the least; the three least losses may lie on one flat side. A neighbour
    that failed, no better than the baseline, is a cliff: the rate of the least loss is taken. NaN
    is worse than any. A least loss at an end of the grid has its best rate outside.
    """
    x = np.log(np.asarray(rates, dtype=float))
    y = np.asarray(losses, dtype=float)
    y = np.where(np.isfinite(y), y, math.inf)
    if not np.isfinite(y).any():
        return Optimum(math.nan, math.nan, BELOW)
    at = int(y.argmin())
    if at in (0, len(y) - 1):
        return Optimum(math.nan, math.nan, BELOW if at == 0 else ABOVE)
    three = slice(at - 1, at + 2)
    if y[three].max() < baseline and y[three].max() > y[at]:
        a, b, c = np.polyfit(x[three] - x[at], y[three], 2)
        vertex = -b / (2 * a)
        return Optimum(math.exp(x[at] + vertex), float((a * vertex + b) * vertex + c))
    step = float(max(x[at + 1] - x[at], x[at] - x[at - 1]))
    return Optimum(float(rates[at]), float(y[at]), slack=step / 2)


def failing_rate(rates: Sequence[float], losses: Sequence[float], baseline: float) -> float | None:
    """The least rate above the best that diverged or does not beat the baseline; or None."""
    y = np.where(np.isfinite(losses), losses, math.inf)
    for rate, loss in list(zip(rates, y, strict=True))[int(y.argmin()) :]:
        if not loss < baseline:
            return float(rate)
    return None


def geometric(rates: Sequence[float]) -> Interval:
    """The geometric mean of rates with its interval over seeds, NaN where one is not known."""
    if not np.isfinite(rates).all():
        return Interval(math.nan, math.nan, math.nan)
    found = t_interval(np.log(rates))
    mean, low, high = (math.exp(min(v, 700.0)) for v in (found.estimate, found.low, found.high))
    return Interval(mean, low, high)


def best_exponent(
    variable: str,
    depths: Sequence[int],
    best: Array,
    outside: Sequence[str],
    slack: Sequence[float] = (),
    groups: Sequence[object] | None = None,
) -> Exponent:
    """The exponent in depth of the best rates (seeds, depths), and whether the rate transfers.

    SUPPORTED where its interval lies inside ±1/16, fitted as in :func:`fit_exponent`, ``groups``
    too. ``outside`` are sentences on depths that the grid does not bracket: UNDECIDED. ``slack``,
    each depth's in log η, widens the interval by what the slope can change.
    """
    if outside or len(set(depths)) < 2 or not len(best):
        because = "; ".join(outside) or "an exponent needs two depths"
        return _undecided(variable, "best rate", because)
    fit = fit_exponent(depths, best, groups)
    kept = [i for i, depth in enumerate(depths) if depth >= fit.fitted_from]
    labels = groups or [None] * len(depths)
    grid = _reach(
        [depths[i] for i in kept], [slack[i] for i in kept] if slack else [],
        [labels[i] for i in kept],
    )  # fmt: skip
    found = fit.interval
    interval = found.widened(grid)
    verdict, because = judge(interval, 0.0, tolerance=TOLERANCE)
    if grid:
        because += f"; ±{grid:.3f} of it is the grid's"
    if fit.fitted_from > min(depths):
        because += f", from {variable} = {fit.fitted_from} on, where it has settled"
    exponent = _exponent(variable, "best rate", interval, verdict, because, 0.0)
    return replace(exponent, fitted_from=fit.fitted_from)


def _reach(depths: Sequence[int], slack: Sequence[float], groups: Sequence[object] = ()) -> float:
    """How far a slope in log depth can change where each point may lie ``slack`` away."""
    x = np.log(np.asarray(depths, dtype=float))
    labels = list(groups) or [None] * len(x)
    centred = x - [fmean(x[[g == label for g in labels]]) for label in labels]
    return float(np.abs(centred) @ np.asarray(slack) / (centred @ centred)) if any(slack) else 0.0


def failing_exponent(
    variable: str,
    depths: Sequence[int],
    failing: Sequence[Sequence[float | None]],
    ratio: float,
    predicted: float | None,
) -> Exponent:
    """The exponent in depth of the first failing rates (seeds, depths) of a grid of this ratio.

    A rate fails somewhere between the first failing one and the one before: the interval is wider
    by what the slope can change within.
    """
    if len(set(depths)) < 2 or not failing:
        return _undecided(variable, "failing rate", "an exponent needs two depths")
    if any(None in row for row in failing):
        return _undecided(variable, "failing rate", "no rate of the grid fails at some depth")
    x = np.log(np.asarray(depths, dtype=float))
    found = t_interval(slopes(x, np.log(np.asarray(failing, dtype=float))))
    grid = _reach(depths, [math.log(ratio) / 2] * len(depths))
    interval = found.widened(grid)
    verdict, because = judge(interval, predicted, tolerance=TOLERANCE)
    because += f"; ±{grid:.3f} of it is the grid's"
    return _exponent(variable, "failing rate", interval, verdict, because, predicted)


def cost_of_depth(
    rates: Sequence[float], best: float, shallow: Array, deep: Array, baseline: float
) -> tuple[float, Interval]:
    """The rate of the grid nearest to ``best``, and what the loss there is above the shallow one's.

    ``shallow`` and ``deep`` are (rates, seeds), paired; NaN has learnt nothing: the baseline.
    """
    at = int(np.abs(np.log(np.asarray(rates) / best)).argmin())
    return float(rates[at]), t_interval(np.nan_to_num(deep[at], nan=baseline) - shallow[at])


def transfers(exponent: Exponent, cost: Interval, learnt: float) -> Verdict:
    """Whether one rate serves every depth: as its exponent says, unless depth costs too much.

    REFUTED where the shallow rate leaves the deep stack worse by a tenth of what was ``learnt``.
    """
    if cost.low > MATERIAL * learnt:
        return Verdict.REFUTED
    return exponent.verdict


def _exponent(
    variable: str, share: str, i: Interval, verdict: Verdict, because: str, predicted: float | None
) -> Exponent:
    lacks = verdict is Verdict.UNDECIDED
    return Exponent(
        variable, share, i.estimate, i.low, i.high, predicted, verdict, because,
        constant=i.within(-TOLERANCE, TOLERANCE),
        would_decide=to_decide(i, predicted, tolerance=TOLERANCE) if lacks else "",
    )  # fmt: skip


def _undecided(variable: str, share: str, because: str) -> Exponent:
    nan = Interval(math.nan, -math.inf, math.inf)
    return _exponent(variable, share, nan, Verdict.UNDECIDED, because, None)


def judged(
    depths: Sequence[Depth],
    rates: Sequence[float],
    losses: Sequence[Mapping[float, Losses]],
    baseline: float,
    predicted: float | None,
    closure: str = "own",
    rule: dict[str, Any] | None = None,
    rho: str = "",
) -> ClosureTransfer:
    """What ``losses``, each depth's by rate, say; ``predicted`` is the failing rate's exponent."""
    rows = [{rate: row[rate] for rate in rates if rate in row} for row in losses]
    curves = tuple(curve_of(d, row, rates, baseline) for d, row in zip(depths, rows, strict=True))
    whole = all(len(row) == len(rates) for row in rows)
    failing = [
        [failing_rate(tuple(row), seed, baseline) for seed in zip(*row.values(), strict=True)]
        for row in rows
    ]
    # the width first where it varies, then the depths
    symbols = sorted(depths[0], key=lambda symbol: symbol != "d")
    free = [symbol for symbol in symbols if varies_alone(symbol, depths)] or symbols[:1]
    best = np.array([curve.best_by_seed for curve in curves if curve.best_by_seed]).T
    findings = [c.finding for c in curves if c.finding]
    exponents = tuple(
        best_exponent(
            symbol, [d[symbol] for d in depths], best, findings, [c.slack for c in curves],
            [tuple(n for s, n in d.items() if s != symbol) for d in depths],
        )
        for symbol in free
    )  # fmt: skip
    variable = free[0]
    layers = [depth[variable] for depth in depths]
    by_seed = list(zip(*failing, strict=True)) if whole else []
    ratio = max((b / a for a, b in pairwise(rates)), default=1.0)
    shallow, deep = curves[0], curves[-1]
    cost = Cost()
    if math.isfinite(shallow.best) and shallow.rates == deep.rates:
        rate, found = cost_of_depth(
            shallow.rates, shallow.best, np.array(shallow.values), np.array(deep.values), baseline
        )
        cost = Cost(rate, found.estimate, found.low, found.high)
    learnt, lost = baseline - shallow.best_loss, Interval(cost.estimate, cost.low, cost.high)
    verdict = min((transfers(e, lost, learnt) for e in exponents), key=WORST_FIRST.index)
    failed = failing_exponent(variable, layers, by_seed, ratio, predicted)
    rule = rule or {"name": closure}
    return ClosureTransfer(
        closure, rule, rho, curves, exponents[0], failed, cost, verdict, exponents
    )


def curve_of(
    depth: Depth, row: Mapping[float, Losses], wanted: Sequence[float], baseline: float
) -> Curve:
    """The losses of one depth by rate, with the best rate where all the ``wanted`` are there."""
    rates, values, key = tuple(row), tuple(row.values()), depth_key(depth)
    losses = tuple(float(np.mean(one)) for one in values)  # NaN where a seed diverged
    collapsed = tuple(sum(not loss < baseline for loss in one) for one in values)
    if len(row) < len(wanted):
        finding = f"depth {key} has {len(row)} of {len(wanted)} rates"
        return Curve(dict(depth), rates, losses, values, finding=finding, collapsed=collapsed)
    optima = [best_rate(rates, seed, baseline) for seed in zip(*values, strict=True)]
    sides = [o.outside for o in optima if o.outside]
    by_seed = tuple(o.rate for o in optima)
    interval = geometric(by_seed)
    finding = ""
    if sides:
        end = rates[0] if sides[0] == BELOW else rates[-1]
        finding = (
            f"at depth {key} the best rate of {len(sides)} of {len(optima)} seeds is not within "
            f"the grid: ask for rates {sides[0]} {end:g}"
        )
    return Curve(
        depth=dict(depth),
        rates=rates,
        losses=losses,
        values=values,
        best=interval.estimate,
        low=interval.low,
        high=interval.high,
        best_loss=float(np.mean([o.loss for o in optima])),
        best_by_seed=by_seed,
        first_failing=failing_rate(rates, losses, baseline),
        slack=float(np.mean([o.slack for o in optima])),
        finding=finding,
        collapsed=collapsed,
    )
