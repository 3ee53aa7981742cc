"""Learning rates: a grid, its curves of losses, the best rate, its exponent, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.special import nctdtr, stdtrit

from deepnet_theory.definitions.measurement import (
    ClosureTransfer,
    Curve,
    Estimate,
    Exponent,
    prediction,
)
from deepnet_theory.definitions.outcome import InputError, Verdict, shown
from deepnet_theory.definitions.record import LARGEST
from deepnet_theory.laboratory.judging import WORST_FIRST, exponent_from, groups_of, varies_alone
from deepnet_theory.laboratory.runs import Ended
from deepnet_theory.laboratory.settings import Depth, depth_key, listed
from deepnet_theory.laboratory.statistics import CONFIDENCE, Array, Interval, slopes, t_interval

TOLERANCE = 1 / 16  # a best rate whose exponent in depth lies within it transfers
STEP = math.log(2) / 2  # a rate that is off by √2
MATERIAL = 0.1  # of what the shallowest stack has learnt: more than that is lost, not noise
BELOW, ABOVE = "below", "above"
MOST = 2**20  # steps
FEWEST_RATES = 3  # a best rate and its neighbours


def require_steps(steps: object) -> None:
    """Raise :class:`InputError` for a number of steps that is none."""
    if type(steps) is not int or not 1 <= steps <= MOST:
        raise InputError(f"steps must be a whole number from 1 to {MOST}, not {shown(steps)}")


def wanted_rates(rates: str | Iterable[float]) -> tuple[float, ...]:
    """The learning rates of a list or a text: ``1e-4,1e-3``, or in ratios of about 2 ``1e-4:1e-2``.

    ``1e-4:1e-2:9`` are nine. Raises :class:`InputError` for anything else, and for too few.
    """
    asked, grid = rates if isinstance(rates, str) else list(rates), list[float]()
    with suppress(TypeError, ValueError, ArithmeticError):
        grid = listed(asked, float, _range)
    if not grid or not all(0 < rate <= LARGEST for rate in grid):
        raise InputError(
            f"the rates {shown(asked)} are not positive numbers, such as 1e-4,1e-3, nor rising "
            "ranges LOW:HIGH or LOW:HIGH:NUMBER, such as 1e-4:1e-2"
        )
    if len(grid) < FEWEST_RATES:
        raise InputError(
            f"the rates {shown(asked)} can decide nothing: the best rate lies between two others; "
            f"give {FEWEST_RATES} or more, such as 1e-4:1e-2"
        )
    return tuple(grid)


def _range(first: str, last: str, *count: str) -> set[float]:
    low, high = float(first), float(last)
    number = int(*count) if count else 1 + max(1, round(math.log2(high / low)))
    if not (0 < low < high <= LARGEST and 2 <= number <= 1000):
        raise ValueError(first)
    return {float(f"{low * (high / low) ** (i / (number - 1)):.6g}") for i in range(number)}


def failing_rate(rates: Sequence[float], losses: Sequence[float], baseline: float) -> float | None:
    """The lowest rate above the best that diverged or does not beat the baseline; or None."""
    y = np.where(np.isfinite(losses), losses, math.inf)
    for rate, loss in list(zip(rates, y, strict=True))[int(y.argmin()) :]:
        if not loss < baseline:
            return float(rate)
    return None


def with_best(curves: Sequence[Curve], baseline: float) -> list[Curve]:
    r"""The curves with their best rates, by parabolas in log η that have one curvature.

    .. math:: \log\eta^*_{ks} = \bar x - \frac{b_{ks}}{2a}

    with b the slope of seed s at size k over three rates, the lowest mean loss of the first size
    and its neighbours where they are near the lowest of size k, and a the mean over seeds and
    sizes. Without parabolas (a curve is not whole, a run is no better than the baseline, the lowest
    loss is at an end of the grid) a best rate is the grid's, off by up to half a step: ``slack``.
    Over numbers of steps each has its own rates and curvature: both terms of the loss fall with it.
    """
    # A curve that only moves up or down keeps its slopes, whatever its shape, where all sizes are
    # seen through the same three rates. A planted N^(1/8) is found with half of the seeds that the
    # vertex of every seed's own parabola needs (tests/laboratory/test_optimum.py).
    windows, middle = [], curves[0].rates[_lowest(curves[0].losses)] if curves[0].rates else 0.0
    alike = "T" not in curves[0].depth
    for c in curves:
        least = _lowest(c.losses) if c.rates else 0
        if alike and middle in c.rates and abs(least - c.rates.index(middle)) <= 1:
            least = c.rates.index(middle)
        x, y, centre = _three(c, least)
        whole = not c.finding and len(x) == FEWEST_RATES and (y < baseline).all()
        bends = np.polyfit(x, y, 2)[0] if whole else np.zeros(1)
        if not bends.mean() > 0:
            return [_on_grid(c) for c in curves]
        windows.append((x, y, centre, bends))
    a, found = float(np.mean([bends for *_, bends in windows])), []
    for c, (x, y, centre, bends) in zip(curves, windows, strict=True):
        a = a if alike else float(bends.mean())
        b, level = np.polyfit(x, y - a * x[:, None] ** 2, 1)
        found.append(_with(c, np.exp(centre - b / (2 * a)), level - b**2 / (4 * a)))
    return found


def _three(c: Curve, least: int) -> tuple[Array, Array, float]:
    """Three rates about one, as log η around its mean, the losses (rates, seeds), and that mean."""
    three = slice(max(0, least - 1), least + 2)
    x = np.log(c.rates[three])
    centre = float(x.mean()) if len(x) else math.nan
    return x - centre, np.array(c.values[three]), centre


def _with(c: Curve, best: Array, losses: Array, slack: float = 0.0) -> Curve:
    """A curve with the best rates of its seeds and the losses there."""
    rate, low, high = geometric(best).numbers
    by_seed, loss = tuple(map(float, best)), float(np.mean(losses))
    return replace(
        c, best=rate, low=low, high=high, best_loss=loss, best_by_seed=by_seed, slack=slack
    )


def _on_grid(c: Curve) -> Curve:
    """A curve with the rates of its seeds' lowest losses, NaN at an end of the grid."""
    if c.finding:
        return c
    y = np.nan_to_num(c.values, nan=math.inf)
    least, x, last = y.argmin(0), np.log(c.rates), len(c.rates) - 1
    ends = [i for i in least if i in (0, last)]
    if ends:
        side, end = (BELOW, c.rates[0]) if ends[0] == 0 else (ABOVE, c.rates[-1])
        finding = (
            f"at depth {depth_key(c.depth)} the best rate of {len(ends)} of {len(least)} seeds is "
            f"not within the grid: ask for rates {side} {end:g}"
        )
        return replace(_with(c, np.full(len(least), math.nan), y.min(0)), finding=finding)
    gaps = [max(x[i + 1] - x[i], x[i] - x[i - 1]) for i in least]
    return _with(c, np.exp(x[least]), y.min(0), float(np.mean(gaps)) / 2)


def _lowest(losses: Sequence[float]) -> int:
    """Where the lowest loss is; NaN is worse than any."""
    return int(np.nan_to_num(losses, nan=math.inf).argmin())


def geometric(rates: Array) -> Interval:
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


def loss_above(one: Curve, best: float, other: Curve, baseline: float) -> Estimate:
    """How far the loss of ``other`` is above that of ``one`` at the rate of both nearest to a best.

    A curve is held against its own lowest loss. Seeds are paired. NaN has learnt nothing: the
    baseline.
    """
    rate = min({*one.rates} & {*other.rates}, key=lambda rate: abs(math.log(rate / best)))
    own = one.rates[_lowest(one.losses)] if one is other else rate
    losses = (c.values[c.rates.index(at)] for c, at in ((other, rate), (one, own)))
    above, below = (np.nan_to_num(each, nan=baseline) for each in losses)
    return Estimate({"rate": rate}, *t_interval(above - below).numbers)


def transfers(verdict: Verdict, cost: Estimate, most: float) -> Verdict:
    """The verdict on an exponent, REFUTED where the largest size costs more than ``most``."""
    return Verdict.REFUTED if cost.low > most else verdict


def of_a_factor(curve: Curve) -> float:
    """The loss by a rate that is off by √2, by the parabola about the lowest; NaN without one."""
    x, y, _ = _three(curve, _lowest(curve.losses))
    if len(x) < FEWEST_RATES or not np.isfinite(y).all():
        return math.nan
    return float(np.polyfit(x, y, 2)[0].mean()) * STEP**2


def judged(
    curves: Sequence[Curve], baseline: float, rule: Sequence[Curve] | None = None
) -> tuple[tuple[Exponent, ...], Estimate | None, Estimate | None, Verdict]:
    """The exponents of the best rates, what the largest size costs, and whether the rates transfer.

    REFUTED where the largest size costs a tenth of what the smallest has learnt, or a wrong rule
    loses more to the ``rule``, whose curves those are, than a rate that is off by √2. Both are the
    same model at the smallest size: its best rate is the rule's.
    """
    places, (shallow, *_, deep) = [curve.depth for curve in curves], (curves[0], *curves)
    best = np.array([curve.best_by_seed for curve in curves if curve.best_by_seed]).T
    findings, slack = [c.finding for c in curves if c.finding], [c.slack for c in curves]
    exponents = tuple(
        best_exponent(symbol, places, best, findings, slack) for symbol in free_symbols(places)
    )
    verdict = min((e.verdict for e in exponents), key=WORST_FIRST.index)
    if not (math.isfinite(shallow.best) and deep.best_by_seed):
        return exponents, None, None, verdict
    base = rule[0] if rule and math.isfinite(rule[0].best) else shallow
    beside = deep if "T" in deep.depth else shallow  # more steps learn more
    cost, gap = loss_above(beside, base.best, deep, baseline), None
    verdict = transfers(verdict, cost, MATERIAL * (baseline - base.best_loss))
    if rule and rule[-1].best_by_seed:
        gap = loss_above(rule[-1], base.best, deep, baseline)
        verdict = transfers(verdict, gap, of_a_factor(base))
    return exponents, cost, gap, verdict


def of_steps(
    curves: Sequence[Curve], exponents: Sequence[Exponent], is_constant: bool
) -> Iterator[Exponent]:
    r"""s - u by the best rates; and s by losses at one rate, where that ``is_constant`` in a run.

    .. math:: L = L_\infty + A\,(\eta T)^{-s} + C\,\eta\,(\eta T)^{-u}, \qquad
              \eta^* \propto T^{-(s - u)/(1 + s - u)}

    At a constant rate u is 0, and the noise that is left is the same at every number of steps T: it
    cancels in differences of losses. SUPPORTED where the interval is above 0; a best rate is
    forecast where all are. Source: derived here.
    """
    for e in (e for e in exponents if e.variable == "T" and math.isfinite(e.high - e.low)):
        s = [Interval(*(-c / (1 + c) if c > -1 else math.inf for c in (e.estimate, e.high, e.low)))]
        held = {symbol: n for symbol, n in curves[-1].depth.items() if symbol != e.variable}
        at = [c for c in curves if {**c.depth, **held} == c.depth]
        middle = math.exp(float(np.mean(np.log([c.best for c in at]))))
        if is_constant and len(at) >= FEWEST_RATES:
            rates = set.intersection(*({*c.rates} for c in at))
            middle = min(rates, key=lambda rate: abs(math.log(rate / middle)))
            three, seeds = (at[0], at[len(at) // 2], at[-1]), range(len(at[0].values[0]))
            s.append(t_interval([power_between(*three, middle, seed) for seed in seeds]))
        told = "no forecast of a best rate: s ≤ u is in an interval"
        if all(one.low > 0 for one in s):
            times, low, high = (f"{4**c:.2f}" for c in (e.estimate, e.low, e.high))
            told = f"here 4 times the steps take {times} times the rate ({low} to {high})"
        yield _falling("s - u, by the best rates", s[0], told)
        for one in s[1:]:
            asks = f"asks for T^{-one.estimate / (1 + one.estimate):.3f}" if one.low > 0 else ""
            asks = asks or "these losses do not fall to a limit as a power of T"
            yield _falling(f"s, by the losses at the rate {middle:.3g}", one, asks)


def _falling(share: str, s: Interval, because: str) -> Exponent:
    """A power of T, judged: does the loss fall?"""
    verdict = s.verdict(0.0, math.inf) if math.isfinite(s.low) else Verdict.UNDECIDED
    return Exponent("T", share, *s.numbers, verdict=verdict, because=because)


def power_between(first: Curve, middle: Curve, last: Curve, rate: float, seed: int) -> float:
    """s of a seed's three losses that fall as T^-s towards a limit; NaN where they do not."""
    losses = [c.values[c.rates.index(rate)][seed] for c in (first, middle, last)]
    a, b = np.diff(np.log([c.depth["T"] for c in (first, middle, last)]))
    s = np.linspace(-3, 3, 600)  # 0 is none of them
    fallen = -np.diff(losses)
    if not (fallen > 0).all():
        return math.nan
    ratios = np.log(np.expm1(a * s) / -np.expm1(-b * s))
    return float(np.interp(math.log(fallen[0] / fallen[1]), ratios, s, math.nan, math.nan))


def free_symbols(places: Sequence[Depth]) -> list[str]:
    """The sizes that vary by themselves, the width first; one where none does."""
    symbols = sorted(places[0], key=lambda symbol: symbol != "d")
    return [symbol for symbol in symbols if varies_alone(symbol, places)] or symbols[:1]


def curve_of(
    depth: Depth, row: Mapping[float, Sequence[Ended]], wanted: Sequence[float], baseline: float
) -> Curve:
    """The losses of one depth by rate; :func:`with_best` says which rate is the best."""
    rates = tuple(row)
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
        few = f"depth {depth_key(depth)} has {len(row)} of {len(wanted)} rates"
        return replace(curve, finding=few)
    return replace(curve, first_failing=failing_rate(rates, losses, baseline))


# ---- would a wrong rule have been seen? ----

PLANTED, ENOUGH = 1 / 8, 0.8  # the exponent of a best rate that is to be refuted, how often
# The largest measured standard deviation of a seed's best rate at one size, in log η, for rates a
# factor 2 apart: 0.07 for Adam (benchmarks/results/transfer.md), 0.12 over widths and 0.19 over
# depths for AdamW (transfer_rivals.md). It falls as 1 over the logarithm of the factor.
SCATTER = 0.19


def power_of(half: float, seeds: int) -> float:
    """How likely a best rate that scales as N^(1/8) is REFUTED by intervals of ``half`` a width."""
    if seeds < 2 or not math.isfinite(half):
        return 0.0
    t = stdtrit(seeds - 1, (1 + CONFIDENCE) / 2)
    return float(1 - nctdtr(seeds - 1, (PLANTED - TOLERANCE) * t / max(half, 1e-12), t))


def expected_power(places: Sequence[Depth], rates: Sequence[float], seeds: int) -> float:
    """The power to expect of the exponent that is known worst."""
    worst, factor = 0.0, float(np.median(np.diff(np.log(rates)))) / math.log(2)
    for symbol in free_symbols(places):
        sizes = np.log([float(place[symbol]) for place in places])
        weights = slopes(sizes, np.eye(len(places)), groups_of(symbol, places))
        worst = max(worst, SCATTER / factor * float(np.linalg.norm(weights)) / math.sqrt(seeds))
    return power_of(float(stdtrit(seeds - 1, (1 + CONFIDENCE) / 2)) * worst, seeds)


def certified(
    rule: ClosureTransfer, rivals: Sequence[ClosureTransfer]
) -> tuple[Verdict, str, float]:
    """The verdict on a rule against wrong ones, the reason, and the power of the test.

    SUPPORTED needs a wrong rule that is REFUTED, and enough power.
    """
    seeds = len(rule.curves[0].best_by_seed)
    power = min(power_of((e.high - e.low) / 2, seeds) for e in rule.exponents)
    refuted = sum(one.verdict is Verdict.REFUTED for one in rivals)
    verdict, said = rule.verdict, "it is undecided whether the rule transfers; "
    if verdict is Verdict.REFUTED:
        said = "the rule does not transfer; "
    elif verdict is Verdict.SUPPORTED:
        told = refuted and power >= ENOUGH
        verdict = verdict if told else Verdict.UNDECIDED
        said = "the rule transfers, and " if told else "this test could not have told: "
    said += f"{refuted} of {len(rivals)} wrong rules were refuted here, at a power of {power:.2f}"
    return verdict, said, power
