"""Statistics: exponents in depth from paired seeds, with intervals, and the verdict on them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from deepnet_theory.definitions.measurement import Estimate
from deepnet_theory.definitions.outcome import Verdict

CONFIDENCE = 0.95
TOLERANCE = 0.05  # an exponent within this distance of the prediction is equivalent to it
SETTLED = TOLERANCE / 2  # a local slope this close to the deeper ones has settled

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval; ``slack`` is the part that no further sample narrows."""

    estimate: float
    low: float
    high: float
    slack: float = field(default=0.0, compare=False)

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high

    def outside(self, low: float, high: float) -> bool:
        return self.high < low or self.low > high

    def verdict(self, low: float, high: float) -> Verdict:
        """SUPPORTED where all of it lies between these, REFUTED where none does."""
        if self.outside(low, high):
            return Verdict.REFUTED
        return Verdict.SUPPORTED if self.within(low, high) else Verdict.UNDECIDED

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def numbers(self) -> tuple[float, float, float]:
        return self.estimate, self.low, self.high


def t_interval(samples: Sequence[float] | Array, confidence: float = CONFIDENCE) -> Interval:
    r"""The mean of independent samples with Student's interval, of 95 % if not specified.

    .. math:: \bar b \pm t_{n-1}\, s/\sqrt n
    """
    x = np.asarray(samples, dtype=float)
    mean = float(x.mean()) if len(x) else math.nan
    if len(x) < 2 or not math.isfinite(mean):
        return Interval(mean, -math.inf, math.inf)
    half = float(stdtrit(len(x) - 1, (1 + confidence) / 2) * x.std(ddof=1) / math.sqrt(len(x)))
    return Interval(mean, mean - half, mean + half)


def positive_interval(samples: Sequence[float] | Array, confidence: float = CONFIDENCE) -> Interval:
    r"""The mean of positive samples with its interval made in logarithms: no end is negative.

    .. math:: \bar b\, \exp\Bigl(\pm t_{n-1}\, \frac{s}{\bar b \sqrt n}\Bigr)

    since :math:`s/(\bar b\sqrt n)` is the standard error of :math:`\log \bar b`, to first order.
    """
    # With few seeds Student's own interval reaches below 0, and then says nothing of a number whose
    # sign is known.
    linear = t_interval(samples, confidence)
    mean = linear.estimate
    if not mean > 0:
        return linear  # all of them 0, or not finite
    with np.errstate(over="ignore"):
        factor = float(np.exp((linear.high - mean) / mean))
    return Interval(mean, mean / factor, mean * factor)


def table(rows: Iterable[Sequence[float]]) -> Array:
    """Values by depth as (seeds, depths)."""
    return np.array(list(rows), dtype=float).T


def estimated(
    at: dict[str, Any], values: tuple[float, ...],
    predicted: tuple[float, float, float] | None = None, finding: str = "",
    confidence: float = CONFIDENCE,
) -> Estimate:  # fmt: skip
    """The mean of positive values of seeds, with its interval."""
    interval = positive_interval(values, confidence).numbers
    return Estimate(at, *interval, predicted, values, finding)


def ratio_interval(y: Array, x: Array) -> Interval:
    r"""The ratio of two means of positive sizes over the same samples, with Fieller's interval.

    .. math:: \{r \ge 0 : |\bar y - r\bar x| \le t_{n-1}\, s_{y - rx}/\sqrt n\}

    It has no upper end where x's own interval holds 0.

    Source: Fieller, J. R. Stat. Soc. B 16 (1954), 175.
    """
    n, (top, below) = len(x), (float(y.mean()), float(x.mean()))
    t = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) ** 2 / n
    (yy, xy), (_, xx) = (np.cov(y, x) * t).tolist()
    a, b, c = below**2 - xx, below * top - xy, top**2 - yy
    root = math.sqrt(max(b**2 - a * c, 0.0))
    low = max((b - root) / a, 0.0) if a and b**2 >= a * c else 0.0
    bounded = below > 0 and a > 0
    ratio = max(top / below, 0.0) if below > 0 else math.inf
    return Interval(ratio, low, (b + root) / a if bounded else math.inf)


def slopes(x: Array, y: Array, groups: Sequence[object] | None = None) -> Array:
    r"""Each seed's least-squares slope of y (seeds, depths) on x (depths,).

    .. math:: b_k = \frac{\sum_i (x_i - \bar x)\,y_{ki}}{\sum_i (x_i - \bar x)^2}

    Every group of depths has an intercept of its own: another depth is held fixed.
    """
    centred = np.array(x, dtype=float)
    labels = list(groups) if groups is not None else [None] * len(x)
    for label in set(labels):
        members = np.array([g == label for g in labels])
        centred[members] -= centred[members].mean()
    scale = float(centred @ centred)
    if scale == 0:
        raise ValueError("a slope needs two different depths in a group")
    return np.asarray(y @ centred / scale)


@dataclass(frozen=True)
class Fit:
    """A log–log slope over seeds, and the smallest depth used."""

    interval: Interval
    fitted_from: int


def fit_exponent(
    depths: Sequence[float],
    values: Array,
    groups: Sequence[object] | None = None,
    slack: Sequence[float] = (),
    confidence: float = CONFIDENCE,
) -> Fit:
    """The exponent in depth of positive ``values`` (seeds, depths), from where it has settled.

    The smallest depth is left out as long as the slope that leads away from it differs from that of
    what lies deeper by more than half the tolerance and the seeds' noise; three depths remain.
    Seeds are paired: the interval is over their slopes; those not positive and finite are left out.
    ``slack`` says how far the logarithm at each depth may be off, which widens the interval.
    """
    # What a seed's data do to one depth they do to the others: a slope within a seed removes this.
    # A fit through pooled points would take the points of one seed for independent ones.
    d, labels = np.asarray(depths), [*groups] if groups is not None else [None] * len(depths)
    good = (np.isfinite(values) & (values > 0)).all(axis=1)
    x, y = np.log(d.astype(float)), np.log(values[good])

    def slopes_where(mask: NDArray[np.bool_], rows: Array = y) -> Array:
        return slopes(x[mask], rows[:, mask], [g for g, m in zip(labels, mask, strict=True) if m])

    places = {*zip(d.tolist(), labels, strict=True)}
    counts = Counter(label for _, label in places)
    starts = sorted({n for n, label in places if counts[label] > 1})
    while len(starts) > 3:
        first, second = starts[:2]
        try:
            near, deep = map(slopes_where, ((d >= first) & (d <= second), d >= second))
        except ValueError:  # no group has two of these depths
            break
        bend = t_interval(near - deep)
        if abs(bend.estimate) <= SETTLED or 0.0 in bend:
            break
        starts.pop(0)
    deep = d >= starts[0]
    slope = t_interval(slopes_where(deep), confidence)
    by = 0.0
    if any(slack):
        # a slope is the sum of weights times values: each may be off to its worst side
        by = float(np.abs(slopes_where(deep, np.eye(len(d)))) @ np.asarray(slack))
    return Fit(Interval(slope.estimate, slope.low - by, slope.high + by, by), starts[0])


def judge(
    interval: Interval,
    predicted: float | None,
    rivals: Sequence[tuple[str, float]] = (),
    tolerance: float = TOLERANCE,
) -> tuple[Verdict, str]:
    """The verdict on a predicted exponent, and the reason in one sentence.

    SUPPORTED: the whole interval lies within ``tolerance`` of this, and the nearest rival outside.
    REFUTED: the whole interval lies beyond the tolerance. UNDECIDED: anything else.
    """
    if not math.isfinite(interval.estimate):
        return Verdict.UNDECIDED, "nothing finite was measured"
    if not math.isfinite(interval.high - interval.low):
        return Verdict.UNDECIDED, "one seed gives no interval"
    shown = f"[{interval.low:+.3f}, {interval.high:+.3f}]"
    if predicted is None:
        return Verdict.UNDECIDED, f"the theory predicts no exponent; measured {shown}"
    same = [name for name, exponent in rivals if exponent == predicted]
    equivalent = f"; equivalent to it: {', '.join(same)}" if same else ""
    band = f"{predicted:+g} ± {tolerance:g}"
    verdict = interval.verdict(predicted - tolerance, predicted + tolerance)
    if verdict is Verdict.REFUTED:
        return verdict, f"{shown} is outside {band}{equivalent}"
    if verdict is Verdict.UNDECIDED:
        return verdict, f"{shown} is not inside {band}, nor outside it{equivalent}"
    others = sorted((abs(e - predicted), name, e) for name, e in rivals if e != predicted)
    for _, name, e in others:
        if e in interval:
            because = f"{shown} does not exclude the rival {name} ({e:+g}){equivalent}"
            return Verdict.UNDECIDED, because
    nearest = "".join(
        f" and excludes the nearest rival, {name} ({e:+g})" for _, name, e in others[:1]
    )
    return verdict, f"{shown} lies inside {band}{nearest}{equivalent}"
