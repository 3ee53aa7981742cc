"""Exponents, rates and means of seeds, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paper_checks.shared.later import Array, np, numeric

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor

    from paper_checks.shared.numeric import Interval


@dataclass(frozen=True)
class Fit:
    """An exponent in depth, and the points that it was fitted to."""

    interval: Interval
    fitted_from: float
    at: tuple[float, ...]
    means: tuple[float, ...]
    seeds: int

    @property
    def estimate(self) -> float:
        """The middle of its interval."""
        return self.interval.estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain data for evidence."""
        i = self.interval
        return {
            "exponent": round(i.estimate, 4),
            "low": round(i.low, 4),
            "high": round(i.high, 4),
            "fitted_from": self.fitted_from,
            "at": self.at,
            "seeds": self.seeds,
            "means": self.means,
        }

    def __str__(self) -> str:
        i = self.interval
        return f"{i.estimate:+.3f} [{i.low:+.3f}, {i.high:+.3f}]"


def settled(at: Sequence[float], values: Array) -> Fit:
    """The log–log slope of ``values`` (seeds, points) on ``at``, from where it has settled."""
    fit = numeric.fit_exponent(at, values)
    means = np.exp(np.log(np.abs(values)).mean(axis=0))
    return Fit(fit.interval, fit.fitted_from, tuple(at), tuple(means.tolist()), len(values))


def power(x: ArrayLike, values: ArrayLike) -> Interval:
    """The log–log slope of ``values`` (seeds, points) over all points, seeds paired."""
    return rate(np.log(np.asarray(x, dtype=float)), values)


def rate(x: ArrayLike, values: ArrayLike) -> Interval:
    """The slope of log ``values`` (seeds, points) in x itself: an exponential's rate."""
    y = np.log(np.asarray(values, dtype=float))
    return numeric.t_interval(numeric.slopes(np.asarray(x, dtype=float), y))


def powers(points: Sequence[Sequence[float]], values: Array) -> tuple[Interval, ...]:
    """The exponents in every knob: ``values`` (seeds, points) where the knobs are ``points``.

    By least squares of the logarithms for each seed.
    """
    design = np.column_stack([np.ones(len(points)), np.log(np.array(points))])
    fitted = np.linalg.lstsq(design, np.log(values).T, rcond=None)[0]  # (1 + knobs, seeds)
    return tuple(numeric.t_interval(row) for row in fitted[1:])


def mean(values: ArrayLike) -> Interval:
    """Mean over seeds with Student's interval."""
    return numeric.t_interval(np.asarray(values, dtype=float))


def columns(points: Iterable[Tensor | ArrayLike]) -> Array:
    """What every seed shows at each of several points, (seeds,) each: (seeds, points)."""
    return np.stack([np.asarray(one, dtype=float) for one in points], axis=1)


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """The log–log slope of an exact law."""
    return float(np.polyfit(np.log(np.asarray(x, dtype=float)), np.log(y), 1)[0])
