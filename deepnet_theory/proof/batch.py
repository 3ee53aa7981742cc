r"""A table in the batch: a fact for each of its numbers, from explicit matrices with noise.

The update itself is taken of :math:`g = G + \xi/\sqrt B`, at several B and thousands of draws of ξ.
With a curvature H of positive numbers the signal :math:`s = -\langle E\,u, G\rangle` and the second
moment :math:`m = E\langle u, Hu\rangle` are means over the draws. Their powers of B give the rate
three times, each apart: (S) from s/m, (D) from 1/(Bs) and, for the noise, from 1/(Bm), a square.

Between the regimes, with :math:`\sigma = B_{\mathrm{noise}}/B` and a gradient G of normal entries
as its noise, :math:`E[G|g] = g/(1+\sigma)`. An update of degree p then gains most at the rate
:math:`\eta/\eta_\infty = (1+\sigma)^{-(1+p)/2}`. A linear one does so at any gradient.

Source: derived here; the conditions as in :mod:`deepnet_theory.sizes.batch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from deepnet_theory.definitions.expression import Node
from deepnet_theory.definitions.optimizer import Optimizer, above_floors
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.proof import explicit
from deepnet_theory.proof.explicit import as_large
from deepnet_theory.proof.facts import Fact, Shown, exactly
from deepnet_theory.proof.witness import Array, rms
from deepnet_theory.sizes.batch import DOMINANT
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.table import ParameterRow

BATCHES = (1, 4, 16)
SHAPE, DRAWS, REPLICAS = (4, 6), 1 << 10, 4  # draws of each of the replicas
FAINT_SIGNAL, FAINT_NOISE = 0.08, 0.001  # at most, where the other one is 1
CLOSE = 0.05  # of a point of the curve
NEAR = 0.02  # how far a measured power may be from the printed one
SPAN, SAMPLES, FAINT_MEAN = 400, 2000, 0.02  # of an average, of a run, and a gradient's mean in it
RATIOS = tuple(10 ** (k / 2) for k in range(-4, 5))  # of B to B_noise, on the curve
WITHOUT = "its gradient is 0 in every sample"


@lru_cache(maxsize=2)
def noise(is_matrix: bool) -> Array:
    """ξ of every replica and draw: normal entries, one of each quantile, and their negatives."""
    shape = SHAPE if is_matrix else (1, math.prod(SHAPE))
    draw, normal = np.random.default_rng(0), np.vectorize(NormalDist().inv_cdf)
    at = np.arange(DRAWS) + draw.uniform(size=(REPLICAS, *shape, 1))
    entries = np.moveaxis(draw.permuted(normal(at / DRAWS), axis=-1), -1, 1)
    return np.concatenate([entries, -entries], axis=1)


@lru_cache(maxsize=1024)
def sampled(
    update: Node, is_matrix: bool, at_zero: bool, spread: float, along: str
) -> tuple[Array, Array]:
    """s and m of each replica, at noise that is ``spread`` times a mean gradient.

    ``along`` "theta" adds a decay to the noise in place of a gradient.
    """
    xi, draw = noise(is_matrix), np.random.default_rng(1)
    sizes, signs = draw.uniform(0.5, 1.0, (3, *SHAPE)), draw.choice((-1.0, 1.0), (2, *SHAPE))
    mean, theta, curvature = (a.reshape(xi.shape[2:]) for a in (*sizes[:2] * signs, sizes[2]))
    toward = mean if along == "g" else theta
    g, theta = toward + spread * rms(toward) * xi, theta * (not at_zero)
    u = explicit.evaluated(update, g, theta, eta=1.0)
    signal, moment = -(u.mean(1) * toward), (u**2).mean(1) * curvature
    return signal.sum((1, 2)), moment.sum((1, 2))


@lru_cache(maxsize=64)
def moved(step: Node, batch: int) -> Array:
    """How far the same samples, in batches, move matrices by a step of averages over SPAN."""
    draw, memory = np.random.default_rng(2), batch / SPAN
    theta, *xi = draw.normal(size=(SAMPLES + 1, REPLICAS, 2, *SHAPE))
    g, v, total = np.zeros_like(theta), np.full_like(theta, 1 / batch), np.zeros_like(theta)
    for first in range(0, SAMPLES, batch):
        sample = FAINT_MEAN + np.mean(xi[first : first + batch], axis=0)
        g, v = g + memory * (sample - g), v + memory * (sample**2 - v)
        total += explicit.evaluated(step, g, theta, eta=1.0, v=v, memory=memory)
    lengths: Array = explicit.norms(total).mean(1)
    return lengths


@lru_cache(maxsize=16)
def best_rate(update: Node, spread: float) -> Array:
    """The rate that gains most in one update, of each replica, at normal entries of G and of ξ.

    Each draw stands for two of the same g, whose mean of G is g/(1 + σ).
    """
    xi, theta = noise(True), np.ones(SHAPE)
    g = np.roll(xi, 1, axis=0) + spread * xi
    u = explicit.evaluated(update, g, theta, eta=1.0)
    rates: Array = -(u * g).sum((1, 2, 3)) / (1 + spread**2) / (u**2).sum((1, 2, 3))
    return rates


def power(of: Callable[[int], Any]) -> Array:
    """The slope of the logarithm of a size in that of B, of each replica."""
    with np.errstate(all="ignore"):
        sizes = np.log([np.broadcast_to(of(batch), REPLICAS) for batch in BATCHES])
    slopes: Array = np.polyfit(np.log(BATCHES), sizes, 1)[0]
    return slopes


def within(near: float, stated: float, replicas: Array) -> bool | None:
    """Whether means over replicas are near what is stated; None where their errors hide it.

    They do where an error is more than a quarter of ``near``, as at an infinite fourth moment.
    """
    errors = np.std(replicas, axis=-1, ddof=1) / REPLICAS**0.5
    off = np.abs(stated - np.mean(replicas, axis=-1))
    if np.any(off >= near + 4 * errors):
        return False
    return bool(np.all(off < near)) if np.all(4 * errors < near) else None


def close(*powers: Array) -> Shown:
    """A power of B that each of these is, to within :data:`NEAR`."""

    def agrees(stated: Monomial | None) -> bool | None:
        if stated is None or not stated.symbols <= {"B"}:
            return False
        if np.isnan(powers).all(axis=1).any():
            return False
        return within(NEAR, float(stated.exponent("B")), np.array(powers))

    found = ", ".join(f"B^{one.mean():.3f}" for one in powers)
    return Shown(agrees, "slopes on explicit matrices with noise", found)


@dataclass(frozen=True)
class OfRole:
    """What explicit matrices show of a role: its powers of B, each by itself."""

    update: Node
    optimizer: Optimizer
    is_matrix: bool
    at_zero: bool
    dominant: bool

    def slope(self, index: int, along: str = "g") -> Array:
        """The power of s or of m."""
        widest = math.sqrt(BATCHES[-1]) / FAINT_SIGNAL if self.dominant else FAINT_NOISE
        of = self.update, self.is_matrix, self.at_zero
        return power(lambda batch: sampled(*of, widest / math.sqrt(batch), along)[index])

    @cached_property
    def rates(self) -> tuple[Array, ...]:
        """The power of the rate by (S), and where noise dominates by both of (D)."""
        signal, moment = self.slope(0), self.slope(1)
        return (signal - moment, 1 - signal, (1 - moment) / 2)[: 3 if self.dominant else 1]

    @lru_cache(maxsize=64)  # noqa: B019  a role of an optimizer is measured once
    def numbers(self) -> dict[str, Shown]:
        """One for each number of the row; one that is not named is not there."""
        if self.at_zero and not explicit.moves_zeros(self.update):
            stuck = Shown(lambda stated: stated is not None, "explicit zeros stay", "0")
            return {"refused": stuck}
        refused = Shown(None, "a law that is missing, which no matrix shows", "")
        if np.ptp([rate.mean() for rate in self.rates]) < NEAR:
            refused = exactly(None, "the conditions agree on explicit matrices")
        shown, rate = {"rate": close(*self.rates), "refused": refused}, self.rates[0]
        if terms := explicit.beside_epsilon(self.optimizer.practised.root):
            xi, mean = noise(self.is_matrix)[0, :64], float(not self.dominant)
            entries = {batch: mean + FAINT_NOISE * xi / math.sqrt(batch) for batch in BATCHES}
            shown["epsilon"] = close(power(lambda b: as_large(terms, entries[b], np.ones(1))))
        if self.optimizer.averaged is not None:
            step = above_floors(self.optimizer.averaged.root)
            shown["memory"] = close(power(lambda batch: -math.expm1(-batch / SPAN)))
            shown["memory_rate"] = shown["rate"]
            if self.dominant:
                shown["memory_rate"] = close(-power(lambda batch: moved(step, batch)))
        if self.is_matrix:
            shown["decay"] = close(1 - rate)  # T updates by eta*lambda*theta
            if self.dominant or explicit.is_additive(self.update):
                shown["coupled_decay"] = close(1 - rate - self.slope(0, "theta"))
        return shown


def numbers(row: ParameterRow, optimizer: Optimizer, noise: str) -> dict[str, Shown]:
    """What is shown of each number of a row; a number that is not named is not there."""
    at = row.place
    if at.kind is Role.KEY_BIAS:
        return {"rate": exactly(ONE, WITHOUT), "refused": exactly(None, WITHOUT)}
    update = explicit.update_of(optimizer, at.starts_at_zero)
    of = OfRole(update, optimizer, at.is_matrix, at.starts_at_zero, noise == DOMINANT)
    return of.numbers()


# ---- between the regimes ----


def curve_facts(update: Node, points: Mapping[float, float]) -> Iterator[Fact]:
    """Each point of a curve beside normal draws."""
    for ratio, rate in points.items():
        seen = best_rate(update, ratio**-0.5) / best_rate(update, 0.0)
        holds, found = within(CLOSE * rate, rate, seen), f"{seen.mean():.4g}"
        yield Fact(f"{ratio:.2g}/batch/curve", rate, holds, "normal draws", found)
