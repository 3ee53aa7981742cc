r"""Where a reading is not as a rule wants it, and how far that is.

A gain is :math:`\mathrm{rms}(W)/\sqrt{2/(\text{fan\_in} + \text{fan\_out})}`. Its interval comes
from the fourth moment of the entries, at 95 % for one matrix as it is told; for the verdict at
95 % for all matrices of the model together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

from deepnet_theory.spec.results.audit import Wanted
from deepnet_theory.spec.results.reading import UNKNOWN, Matrix, Reading

EXACT = 0.01  # of a coefficient that code computes: published constants have two decimals
SIMILAR = 1.25  # layers whose ratios are within this factor differ alike
FAR = 10.0  # the logarithm of a ratio that is none


@dataclass(frozen=True)
class Difference:
    """One α, one placement or one gain of one sublayer that is ``ratio`` times the wanted one."""

    index: int  # of the sublayer
    item: str  # alpha, norms, or a matrix's role
    ratio: float
    found: float
    wanted: float
    matrix: Matrix | None = None


def gain(matrix: Matrix, level: float = 0.95) -> tuple[float, float, float]:
    """The gain of a matrix and the ends of its interval."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    size, margin = matrix.size / matrix.xavier, z * matrix.error / matrix.xavier
    return size, size - margin, size + margin


def differences(reading: Reading, rule: Wanted) -> Iterator[Difference]:
    """Where a reading is not as a rule wants it."""
    count = sum(len(s.matrices) for s in reading.sublayers)
    for index, (s, wanted) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        if s.around != wanted.norms:
            yield Difference(index, "norms", 1.0, 1.0, 1.0)
        if not math.isclose(s.alpha, wanted.alpha, rel_tol=EXACT):
            yield Difference(index, "alpha", s.alpha / wanted.alpha, s.alpha, wanted.alpha)
        for m in s.matrices:
            if unjudged(m):
                continue
            size, low, high = gain(m, 1 - 0.05 / count)
            aim = wanted.gain(m)
            if not low * (1 - EXACT) <= aim <= high * (1 + EXACT):
                ratio = size / aim if aim else math.inf
                yield Difference(index, m.role, ratio, size, aim, m)


def as_made(m: Matrix) -> bool:
    """Whether a matrix has the size that torch makes a Linear with, uniform within 1/√fan_in."""
    own = math.sqrt(1 / (3 * m.fan_in))
    return abs(m.size - own) <= 3 * m.error + EXACT * own


def unjudged(m: Matrix) -> bool:
    """Whether a matrix has no gain to hold against a rule: a factor has a part of one."""
    return m.role == UNKNOWN or m.factor


def distance(
    reading: Reading, rule: Wanted, different: list[Difference]
) -> tuple[int, bool, float]:
    """How much differs in kind, and then in size; a derived rule is nearer than a published one.

    What a rule has of its own, a gain or an α that is not 1, speaks for it where the model has
    it too; the size that torch makes a Linear with was chosen by nobody and speaks for none. A
    coefficient that the code multiplies with was computed from some rule, and weighs as much as
    all matrices of the sublayer.
    """
    differ = {(d.index, d.item) for d in different}
    kinds: dict[tuple[str, str, str], int] = {}
    for index, (s, w) in enumerate(zip(reading.sublayers, rule.sublayers, strict=True)):
        written = len(s.matrices) if s.alpha_on else 1
        items = {"norms": (2, 0), "alpha": (written, written * (w.alpha != 1))}
        items |= {
            m.role: (1, int(w.gains.get(m.role, 1.0) != 1 and not as_made(m))) for m in s.matrices
        }
        for item, (against, for_it) in items.items():
            key = (s.stack, s.kind, item)
            now = against if (index, item) in differ else -for_it
            kinds[key] = max(kinds.get(key, now), now)
    return sum(kinds.values()), rule.published, sum(abs(log(d.ratio)) for d in different)


def log(ratio: float) -> float:
    """The logarithm of a ratio, far off where it is 0 or infinite."""
    return math.log(ratio) if 0 < ratio < math.inf else math.copysign(FAR, ratio - 1)
