r"""What differences do to ‖ΔF‖: predicted where constants say them, else by the first order.

The first order holds near the identity; beyond it, and for models that no rule has a law for, no
number is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from deepnet_theory.models.auditing.differences import Difference, unjudged
from deepnet_theory.models.auditing.predicted import Predictor
from deepnet_theory.numeric.case import NEAR
from deepnet_theory.spec.results.audit import Wanted, WantedSublayer
from deepnet_theory.spec.results.reading import Reading, Sublayer

SCALED = {"value", "output", "fc1", "fc2", "gate", "up", "down"}
APART = 1.3  # what two ways to add may differ by where a number is given


class Effect(NamedTuple):
    """What ‖ΔF‖ is multiplied with, and whether that is a ratio of two predictions."""

    times: float | None
    predicted: bool


class Effects:
    """The effects of differences of one reading from one rule."""

    def __init__(self, reading: Reading, rule: Wanted) -> None:
        self._reading, self._rule = reading, rule
        self._predictor = Predictor(reading, rule)

    def of(self, different: Sequence[Difference]) -> Effect:
        """That of these differences together, all else as wanted."""
        ratio = self._predictor.ratio(different)
        if ratio is not None:
            return Effect(ratio, predicted=True)
        if any(d.item == "norms" for d in different):
            return Effect(None, predicted=False)
        try:
            near = self._near(different)
            times = first_order(self._reading, self._rule, different) if near else None
        except (ValueError, ZeroDivisionError):  # α is 0, or a law divides by a size of 0
            times = None
        return Effect(times, predicted=False)

    def _near(self, different: Sequence[Difference]) -> bool:
        r"""Whether S·r² is small under the rule and with the differences.

        Under the rule it is measured; a branch's r is then as its P/α.
        """
        usual = self._predictor.distance
        if usual is None:
            return False
        squares = []
        for s, w, found in _sublayers(self._reading, self._rule, different):
            wanted, now = branch_size(s, w.alpha, _gains(s, w)), branch_size(s, *found)
            if not wanted or not math.isfinite(now / wanted):
                return False
            squares.append((now / wanted) ** 2)
        return usual * max(1.0, fmean(squares)) <= NEAR


def branch_size(s: Sublayer, alpha: float, gains: Mapping[str, float]) -> float:
    """P/α, to which a branch's size over its stream's is proportional; P is 1 before a norm."""
    if "output" in s.around:
        return 1 / alpha
    return math.prod(gains[m.role] for m in s.matrices if m.role in SCALED & gains.keys()) / alpha


def shares(
    s: Sublayer, rates: Mapping[str, float], alpha: float, gains: Mapping[str, float],
    p: float, q: float,
) -> list[float]:  # fmt: skip
    r"""What one update of each of a sublayer's matrices moves the output by, in orders.

    .. math:: \kappa_i \Bigl(\frac{P_i}{\alpha}\Bigr)^{1+p} \beta_i^q, \qquad
              P_i = \prod_{j \ne i} \beta_j

    P_i is 1/β_i where a norm follows the branch, which takes its size away but not a gradient's.
    """
    scaled = [m.role for m in s.matrices if m.role in SCALED & gains.keys()]
    normed = "output" in s.around

    def without(*roles: str) -> float:
        if normed:
            return math.prod(1 / gains[role] for role in roles)
        return math.prod(gains[role] for role in scaled if role not in roles)

    def moved(role: str, size: float) -> float:
        return rates.get(role, 1.0) * math.pow(size / alpha, 1 + p) * math.pow(gains[role], q)

    found = [moved(role, without(role)) for role in scaled]
    if {"query", "key"} <= gains.keys():
        found += [
            moved("query", without() * gains["key"]),
            moved("key", without() * gains["query"]),
        ]
    return found


def first_order(reading: Reading, rule: Wanted, different: Sequence[Difference]) -> float | None:
    """What differences multiply the stacks' ‖ΔF‖ after one update with, all else as wanted.

    Layers add up. What a sublayer's own matrices do lies between a plain sum, were they to move
    the output alike, and a root of squares, were they independent: None where that leaves more
    than ``APART`` open.
    """
    if rule.degrees is None:
        return None
    alike, independent = [], []
    for s, w, found in _sublayers(reading, rule, different):
        before = shares(s, w.rates, w.alpha, _gains(s, w), *rule.degrees)
        after = shares(s, w.rates, *found, *rule.degrees)
        alike.append(sum(after) / sum(before))
        independent.append(math.hypot(*after) / math.hypot(*before))
    low, high = sorted((fmean(alike), fmean(independent)))
    return math.sqrt(low * high) if low and high / low <= APART else None


def _gains(s: Sublayer, wanted: WantedSublayer) -> dict[str, float]:
    return {m.role: wanted.gain(m) for m in s.matrices if not unjudged(m)}


def _sublayers(
    reading: Reading, rule: Wanted, different: Sequence[Difference]
) -> Iterator[tuple[Sublayer, WantedSublayer, tuple[float, dict[str, float]]]]:
    """Every sublayer, what is wanted of it, and its α and gains with the differences."""
    at: dict[int, list[Difference]] = {}
    for d in different:
        at.setdefault(d.index, []).append(d)
    for index, (s, w) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        own = at.get(index, [])
        alpha = next((d.found for d in own if d.item == "alpha"), w.alpha)
        yield s, w, (alpha, _gains(s, w) | {d.item: d.found for d in own if d.matrix})
