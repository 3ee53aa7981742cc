r"""What differences do to ‖ΔF‖: predicted where constants say them, else by the first order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deepnet_theory.models.auditing.differences import Difference, unjudged
from deepnet_theory.models.auditing.predicted import Predictor
from deepnet_theory.spec.results.audit import Wanted
from deepnet_theory.spec.results.reading import Reading, Sublayer

SCALED = ("value", "output", "fc1", "fc2", "gate", "up", "down")


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
        return Effect(first_order(self._reading, self._rule, different), predicted=False)


def share(s: Sublayer, alpha: float, gains: Mapping[str, float], p: float, q: float) -> float:
    r"""What one update through a sublayer's matrices moves the output by, in orders.

    .. math:: \sum_i \Bigl(\frac{P}{\alpha\beta_i}\Bigr)^{1+p} \beta_i^q, \qquad P = \prod_i \beta_i

    P is 1 where a norm follows the branch, which takes its size away but not a gradient's 1/β_i.
    """
    scaled = [gains[m.role] for m in s.matrices if m.role in SCALED and m.role in gains]
    product = 1.0 if "output" in s.around else math.prod(scaled)
    total: float = sum((product / b / alpha) ** (1 + p) * b**q for b in scaled if b)
    if {"query", "key"} <= gains.keys():
        for own, other in (("query", "key"), ("key", "query")):
            total += (product * gains[other] / alpha) ** (1 + p) * gains[own] ** q
    return total


def first_order(reading: Reading, rule: Wanted, different: Sequence[Difference]) -> float | None:
    """What differences multiply the stacks' ‖ΔF‖ after one update with, all else as wanted."""
    if rule.degrees is None or any(d.item == "norms" for d in different):
        return None
    at: dict[int, list[Difference]] = {}
    for d in different:
        at.setdefault(d.index, []).append(d)
    total = 0.0
    for index, (s, w) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        gains = {m.role: w.gain(m) for m in s.matrices if not unjudged(m)}
        faulty = gains | {d.item: d.found for d in at.get(index, ()) if d.matrix}
        alpha = next((d.found for d in at.get(index, ()) if d.item == "alpha"), w.alpha)
        before = share(s, w.alpha, gains, *rule.degrees)
        if not before or not alpha or math.isinf(before):
            return None
        total += share(s, alpha, faulty, *rule.degrees) / before
    return total / len(reading.sublayers)
