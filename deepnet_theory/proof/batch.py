r"""A table in the batch: a fact for each of its numbers, from explicit matrices with noise.

The update itself is taken of :math:`g = G + \xi/\sqrt B`, at several B and thousands of draws of ξ.
With a curvature H of positive numbers the signal :math:`s = -\langle E\,u, G\rangle` and the second
moment :math:`m = E\langle u, Hu\rangle` are means over the draws. Their powers of B give the rate
three times, each apart: (S) from s/m, (D) from 1/(Bs) and, for the noise, from 1/(Bm), a square.
In the steady state of noise and decay one update of the draws leaves the size of the weights.

Between the regimes, with :math:`\sigma = B_{\mathrm{noise}}/B` and a gradient G of normal entries
as its noise, :math:`E[G|g] = g/(1+\sigma)`. An update of degree p then gains most at the rate
:math:`\eta/\eta_\infty = (1+\sigma)^{-(1+p)/2}`. A linear one does so at any gradient.

Source: derived here; the conditions as in :mod:`deepnet_theory.sizes.batch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from deepnet_theory.definitions.assumption import Assumption, assumption
from deepnet_theory.definitions.display import Displayed
from deepnet_theory.definitions.expression import Node
from deepnet_theory.definitions.optimizer import Optimizer, above_floors
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.sublayer import Role
from deepnet_theory.proof import explicit
from deepnet_theory.proof.derivation import SCHEMA, Derivation
from deepnet_theory.proof.explicit import as_large
from deepnet_theory.proof.facts import Fact, Shown, exactly, fact
from deepnet_theory.proof.width import WidthDerivation, update_of
from deepnet_theory.proof.witness import Array, rms
from deepnet_theory.sizes.batch import DOMINANT, POWERS, BatchTable, degree
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.table import ParameterRow
from deepnet_theory.sizes.width import share, texts

BATCHES = (1, 4, 16)
SHAPE, DRAWS, REPLICAS = (4, 6), 1 << 10, 4  # draws of each of the replicas
FAINT_SIGNAL, FAINT_NOISE = 0.08, 0.001  # at most, where the other one is 1
CLOSE = 0.05  # of a point of the curve
NEAR = 0.02  # how far a measured power may be from the printed one
SPAN, SAMPLES, FAINT_MEAN = 400, 2000, 0.02  # of an average, of a run, and a gradient's mean in it
PAIRS, FAR = 1 << 6, 1e4  # draws that decide a size, and how far from it a line is seen
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
) -> tuple[Array, Array, Array]:
    """s, m and E‖u‖² of each replica, at noise that is ``spread`` times a mean gradient.

    ``along`` "theta" adds a decay to the noise in place of a gradient.
    """
    xi, draw = noise(is_matrix), np.random.default_rng(1)
    sizes, signs = draw.uniform(0.5, 1.0, (3, *SHAPE)), draw.choice((-1.0, 1.0), (2, *SHAPE))
    mean, theta, curvature = (a.reshape(xi.shape[2:]) for a in (*sizes[:2] * signs, sizes[2]))
    toward = mean if along == "g" else theta
    g, theta = toward + spread * rms(toward) * xi, theta * (not at_zero)
    u = explicit.evaluated(update, g, theta, eta=1.0)
    signal, square = -(u.mean(1) * toward), (u**2).mean(1)
    return signal.sum((1, 2)), (square * curvature).sum((1, 2)), square.sum((1, 2))


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


def steady(update: Node, spread: float, rate: float, share: float) -> Array:
    """The rms of each replica's matrices that noise raises as much as a decay by ``share`` takes.

    In logarithms of the rms its rise is a line of slope q - 1. NaN where that is no line over many
    sizes, or does not fall: no size is steady.
    """
    xi, theta = noise(True)[:, :PAIRS], np.random.default_rng(1).choice((-1.0, 1.0), SHAPE)
    u = [explicit.evaluated(update, spread * xi, by * theta, eta=rate) for by in (1 / FAR, 1, FAR)]
    with np.errstate(all="ignore"):
        squares = [(one**2).mean((1, 2, 3)) / (1 - (1 - share) ** 2) for one in u]
        small, one, large = np.log(squares) / 2 + math.log(FAR) * np.array([[1], [0], [-1]])
        slope = (large - small) / (2 * math.log(FAR))
        steadies = (np.abs(small + large - 2 * one) < NEAR) & (slope < -NEAR)
        return np.where(steadies, np.exp(-one / slope), math.nan)


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


def close(*powers: Array, in_steps: tuple[Array, ...] = ()) -> Shown:
    """A power of B that each of these is, and of T ``in_steps``, to within :data:`NEAR`."""
    measured = {"B": np.array(powers), "T": np.array(in_steps)}
    known = {symbol: of for symbol, of in measured.items() if len(of)}

    def agrees(stated: Monomial | None) -> bool | None:
        if stated is None or not stated.symbols <= {*known}:
            return False
        if any(np.isnan(of).all(axis=1).any() for of in known.values()):
            return False
        holds = [within(NEAR, float(stated.exponent(x)), of) for x, of in known.items()]
        return None if None in holds and False not in holds else all(holds)

    found = ", ".join(f"{x}^{one.mean():.3f}" for x, of in known.items() for one in of)
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

    def steady(self) -> Shown | None:
        """The powers of B, and of T at a rate that stays, of a matrix's rms; None without any."""
        rate = float(self.rates[0].mean())

        def at(batch: int, longer: float = 1.0) -> Array:
            return steady(self.update, batch**-0.5, batch**rate, batch / SPAN / longer)

        with_steps = np.log(at(1, longer=4) / at(1)) / math.log(4)
        return None if np.isnan(with_steps).any() else close(power(at), in_steps=(with_steps,))

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
            if self.dominant and not self.at_zero and (steady := self.steady()):
                shown["weight_rms"] = steady
            if self.dominant or explicit.is_additive(self.update):
                shown["coupled_decay"] = close(1 - rate - self.slope(0, "theta"))
        return shown


def row_facts(table: BatchTable) -> Iterator[Fact]:
    """A fact for each number of each row."""
    optimizer, dominant = table.selection.the_optimizer, table.gradient_noise == DOMINANT
    for row in table.rows:
        at = row.place
        shown = {"rate": exactly(Monomial(), WITHOUT), "refused": exactly(None, WITHOUT)}
        if at.kind is not Role.KEY_BIAS:
            key = optimizer, at.is_matrix, at.starts_at_zero, dominant
            shown = OfRole(update_of(table, row), *key).numbers()
        of = "/".join(filter(None, (at.part, at.sublayer, at.role, "batch")))
        for name in (*POWERS, "refused"):
            seen = shown.get(name) or exactly(None, "it has none")
            own = fact(f"{of}/{name}", getattr(row, name), seen)
            yield replace(own, stated=None if own.stated is None else str(own.stated))


@dataclass(frozen=True, repr=False)
class BatchDerivation(Displayed):
    """A table in the batch with its facts, and a derivation in depth or width, if any."""

    table: BatchTable
    deep: Derivation | None = None
    wide: WidthDerivation | None = None
    curved: bool = False

    @cached_property
    def root(self) -> Node:
        """The update of a matrix that is at no floor."""
        return above_floors(self.table.selection.the_optimizer.expression.root)

    @property
    def premise(self) -> str:
        """The gradients that the curve is of: any, under an update that is linear in g."""
        return "any gradient" if explicit.is_additive(self.root) else "a gradient like its noise"

    @cached_property
    def curve(self) -> dict[float, float]:
        """The best rate over that without noise, by B/B_noise."""
        table = self.table
        p, _ = degree(table.selection.the_optimizer, table.gradient_noise, False)
        return {ratio: (1 + 1 / ratio) ** (-(1 + p) / 2) for ratio in RATIOS if self.curved}

    def curve_facts(self) -> Iterator[Fact]:
        """Each point of the curve beside normal draws."""
        for ratio, rate in self.curve.items():
            seen = best_rate(self.root, ratio**-0.5) / best_rate(self.root, 0.0)
            holds, found = within(CLOSE * rate, rate, seen), f"{seen.mean():.4g}"
            yield Fact(f"{ratio:.2g}/batch/curve", rate, holds, "normal draws", found)

    @property
    def others(self) -> Derivation | WidthDerivation | None:
        """The derivation in other dimensions."""
        return self.deep or self.wide

    @property
    def across(self) -> str:
        """The dimensions, the batch last."""
        if self.wide:
            return ",".join((*self.wide.table.dimensions, "batch"))
        return "depth,batch" if self.deep else "batch"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The premises of the conditions, and of other dimensions."""
        regime = "noise-dominated" if self.table.gradient_noise == DOMINANT else "signal-dominated"
        own = map(assumption, ("independent-samples", regime))
        return tuple(dict.fromkeys((*(self.others.assumptions if self.others else ()), *own)))

    @cached_property
    def measured(self) -> tuple[Fact, ...]:
        """A fact for every number that is printed."""
        others = self.others.measured if self.others else ()
        return (*others, *row_facts(self.table), *self.curve_facts())

    @cached_property
    def verdict(self) -> Verdict:
        """PROVED (given the assumptions) where no fact differs, nor a step in other dimensions."""
        verdicts = [one.verdict for one in (*self.measured, self.others) if one]
        return Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.PROVED

    @property
    def shown(self) -> str:
        """What has been shown, in words."""
        if self.verdict is Verdict.REFUTED:
            differ = (f for f in self.measured if f.verdict is Verdict.REFUTED)
            named = (f"{one.of} is {one.stated}, and was measured as {one.found}" for one in differ)
            return next(named, "a step fails its check")
        own = (one for one in self.measured if "/batch/" in one.of and one.holds is None)
        aside = ", ".join({one.of.rpartition("/")[2]: 0 for one in own})
        return (
            "the powers follow from the conditions, given the assumptions, and explicit matrices "
            f"with noise show them{f' (not decided there: {aside})' if aside else ''}"
        )

    @property
    def joint(self) -> tuple[ParameterRow, ...]:
        """The rows of a table in width times the powers of B: B_noise is of order one there.

        B of a token's or an expert's row is its share of the batch.
        """
        powers, rows = {row.place.known: row for row in self.table.rows}, list[ParameterRow]()
        if self.wide is None:
            return ()
        table = self.wide.table
        for row in table.rows:
            own, seen = powers[row.place.known], share(table.across, row.place)
            numbers: dict[str, Any] = {}
            for name in POWERS:
                size, by = getattr(row, name), getattr(own, name)
                if size and by:
                    updates = seen if "decay" in name else Monomial()  # as many, of fewer samples
                    numbers[name] = size * by.put({"B": Monomial.of("B") * seen}) / updates
            rows.append(replace(row, **numbers))
        return tuple(rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the shape of the public JSON."""
        data: dict[str, Any] = {"schema": SCHEMA, "select": self.table.selection.to_dict()}
        data |= self.others.to_dict() if self.others else {"rule": [], "eta": "1", "steps": []}
        if self.wide:
            data["roles"] = [texts(row) for row in self.joint]
        if self.curved:
            points = [{"batch": ratio, "rate": rate} for ratio, rate in self.curve.items()]
            data["curve"] = {"closed": True, "premise": self.premise, "points": points}
        return data | {
            "across": self.across,
            "batch": {"gradient_noise": self.table.gradient_noise, "roles": self.table.texts},
            "assumptions": [{"name": a.name, "statement": a.statement} for a in self.assumptions],
            "measured": [one.to_dict() for one in self.measured],
            "verdict": self.verdict.value,
        }
