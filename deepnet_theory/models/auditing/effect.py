r"""What differences do to ‖ΔF‖, by the first order of the theory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from deepnet_theory.models.auditing.differences import Difference, unjudged
from deepnet_theory.spec.audit import Wanted
from deepnet_theory.spec.reading import Reading, Sublayer

SCALED = ("value", "output", "fc1", "fc2", "gate", "up", "down")


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


def effect(reading: Reading, rule: Wanted, different: Sequence[Difference]) -> float | None:
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
