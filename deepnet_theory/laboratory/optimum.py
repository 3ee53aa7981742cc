"""Learning rates: a grid, its curves of losses, the best rate, its exponent, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from deepnet_theory.definitions.measurement import Curve, Estimate, Exponent, prediction
from deepnet_theory.definitions.outcome import InputError, Verdict, shown
from deepnet_theory.definitions.record import LARGEST
from deepnet_theory.laboratory.common_mode import Ended
from deepnet_theory.laboratory.judging import WORST_FIRST, exponent_from, varies_alone
from deepnet_theory.laboratory.settings import Depth, depth_key
from deepnet_theory.laboratory.statistics import Array, Interval, t_interval

TOLERANCE = 1 / 16  # a best rate whose exponent in depth lies within it transfers
MATERIAL = 0.1  # of what the shallowest stack has learnt: more than that is lost, not noise
BELOW, ABOVE = "below", "above"
MOST = 2**20  # steps
FEWEST_RATES = 3  # a best rate and its neighbours


def require_steps(steps: object) -> None:
    """Raise :class:`InputError` for a number of steps that is none."""
    if type(steps) is not int or not 1 <= steps <= MOST:
        raise InputError(f"steps must be a whole number from 1 to {MOST}, not {shown(steps)}")


def wanted_rates(rates: str | Iterable[float]) -> tuple[float, ...]:
    """The rates as :func:`parse_rates` reads them; raises :class:`InputError` for too few."""
    rates = rates if isinstance(rates, str) else list(rates)
    grid = parse_rates(rates)
    if len(grid) < FEWEST_RATES:
        raise InputError(
            f"the rates {shown(rates)} can decide nothing: the best rate lies between two others; "
            f"give {FEWEST_RATES} or more, such as 1e-4:1e-2"
        )
    return grid


def parse_rates(rates: str | Sequence[float]) -> tuple[float, ...]:
    """The learning rates of a list or a text: ``1e-4,1e-3``, or in ratios of about 2 ``1e-4:1e-2``.

    ``1e-4:1e-2:9`` are nine. Raises :class:`InputError` for anything else.
    """
    grid = set[float]()
    try:
        for item in rates.split(",") if isinstance(rates, str) else rates:
            grid |= _range(item) if isinstance(item, str) and ":" in item else {float(item)}
    except (TypeError, ValueError, ArithmeticError):
        grid.clear()
    if not grid or not all(0 < rate <= LARGEST for rate in grid):
        raise InputError(
            f"the rates {shown(rates)} are not positive numbers, such as 1e-4,1e-3, nor rising "
            "ranges LOW:HIGH or LOW:HIGH:NUMBER, such as 1e-4:1e-2"
        )
    return tuple(sorted(grid))


def _range(text: str) -> set[float]:
    first, last, *count = text.split(":")
    low, high = float(first), float(last)
    number = int(*count) if count else 1 + max(1, round(math.log2(high / low)))
    if not (0 < low < high <= LARGEST and 2 <= number <= 1000):
        raise ValueError(text)
    return {float(f"{low * (high / low) ** (i / (number - 1)):.6g}") for i in range(number)}


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
    least = int(y.argmin())
    if least in (0, len(y) - 1):
        return Optimum(math.nan, math.nan, BELOW if least == 0 else ABOVE)
    three = slice(least - 1, least + 2)
    if y[three].max() < baseline and y[three].max() > y[least]:
        a, b, c = np.polyfit(x[three] - x[least], y[three], 2)
        vertex = -b / (2 * a)
        return Optimum(math.exp(x[least] + vertex), float((a * vertex + b) * vertex + c))
    step = float(max(x[least + 1] - x[least], x[least] - x[least - 1]))
    return Optimum(float(rates[least]), float(y[least]), slack=step / 2)


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
    mean, low, high = (math.exp(min(end, 700.0)) for end in t_interval(np.log(rates)).numbers)
    return Interval(mean, low, high)


def best_exponent(
    symbol: str,
    places: Sequence[Depth],
    best: Array,
    outside: Sequence[str] = (),
    slack: Sequence[float] = (),
) -> Exponent:
    """The exponent in one symbol of the best rates (seeds, places): does the rate transfer?

    SUPPORTED where its interval lies inside ±1/16. ``outside`` are sentences on places that the
    grid does not bracket: UNDECIDED. ``slack``, each place's in log η, widens the interval by what
    the slope can change.
    """
    constant = prediction(symbol, "best rate", Fraction(0))
    if outside or not len(best) or not varies_alone(symbol, places):
        return replace(constant, because="; ".join(outside) or "an exponent needs two depths")
    return exponent_from(constant, places, best, TOLERANCE, slack)


def cost_of_depth(
    rates: Sequence[float], best: float, shallow: Array, deep: Array, baseline: float
) -> tuple[float, Interval]:
    """The rate of the grid nearest to ``best``, and what the loss there is above the shallow one's.

    ``shallow`` and ``deep`` are (rates, seeds), paired; NaN has learnt nothing: the baseline.
    """
    near = int(np.abs(np.log(np.asarray(rates) / best)).argmin())
    return float(rates[near]), t_interval(np.nan_to_num(deep[near], nan=baseline) - shallow[near])


def transfers(exponent: Exponent, cost: Interval, learnt: float) -> Verdict:
    """Whether one rate serves every depth: as its exponent says, unless depth costs too much.

    REFUTED where the shallow rate leaves the deep stack worse by a tenth of what was ``learnt``.
    """
    if cost.low > MATERIAL * learnt:
        return Verdict.REFUTED
    return exponent.verdict


def judged(
    curves: Sequence[Curve], baseline: float
) -> tuple[tuple[Exponent, ...], Estimate | None, Verdict]:
    """The exponents of the best rates, what depth costs, and whether the rates transfer."""
    places = [curve.depth for curve in curves]
    # the width first where it varies, then the depths
    symbols = sorted(places[0], key=lambda symbol: symbol != "d")
    free = [symbol for symbol in symbols if varies_alone(symbol, places)] or symbols[:1]
    best = np.array([curve.best_by_seed for curve in curves if curve.best_by_seed]).T
    findings, slack = [c.finding for c in curves if c.finding], [c.slack for c in curves]
    exponents = tuple(best_exponent(symbol, places, best, findings, slack) for symbol in free)
    shallow, deep = curves[0], curves[-1]
    cost, lost = None, Interval(math.nan, math.nan, math.nan)
    if math.isfinite(shallow.best) and shallow.rates == deep.rates:
        values = np.array(shallow.values), np.array(deep.values)
        rate, lost = cost_of_depth(shallow.rates, shallow.best, *values, baseline)
        cost = Estimate({"rate": rate}, *lost.numbers)
    each = (transfers(e, lost, baseline - shallow.best_loss) for e in exponents)
    return exponents, cost, min(each, key=WORST_FIRST.index)


def curve_of(
    depth: Depth, row: Mapping[float, Sequence[Ended]], wanted: Sequence[float], baseline: float
) -> Curve:
    """The losses of one depth by rate, with the best rate where all the ``wanted`` are there."""
    rates, key = tuple(row), depth_key(depth)
    values = tuple(tuple(one.value for one in runs) for runs in row.values())
    losses = tuple(float(np.mean(one)) for one in values)  # NaN where a seed diverged
    collapsed = tuple(sum(not loss < baseline for loss in one) for one in values)
    curve = Curve(dict(depth), rates, losses, values, collapsed=collapsed)
    taken = [[one for run in runs for one in run.taken] for runs in row.values()]
    if any(taken):
        weights = tuple(max((one.weight for one in t), default=math.nan) for t in taken)
        cosines = tuple(max((one.cosine for one in t), default=math.nan) for t in taken)
        curve = replace(curve, common_mode=weights, token_cosine=cosines)
    if len(row) < len(wanted):
        return replace(curve, finding=f"depth {key} has {len(row)} of {len(wanted)} rates")
    optima = [best_rate(rates, seed, baseline) for seed in zip(*values, strict=True)]
    sides = [o.outside for o in optima if o.outside]
    by_seed = tuple(o.rate for o in optima)
    finding = ""
    if sides:
        end = rates[0] if sides[0] == BELOW else rates[-1]
        finding = (
            f"at depth {key} the best rate of {len(sides)} of {len(optima)} seeds is not within "
            f"the grid: ask for rates {sides[0]} {end:g}"
        )
    best, low, high = geometric(by_seed).numbers
    return replace(
        curve, best=best, low=low, high=high,
        best_loss=float(np.mean([o.loss for o in optima])),
        best_by_seed=by_seed,
        first_failing=failing_rate(rates, losses, baseline),
        slack=float(np.mean([o.slack for o in optima])),
        finding=finding,
    )  # fmt: skip
