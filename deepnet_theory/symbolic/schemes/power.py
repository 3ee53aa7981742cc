r"""Sizes at layer :math:`l = N^t` of an N-layer stack, as exponents of N, exactly.

A size :math:`f(N, l)` has the exponent :math:`e(t) = \lim \log f(N, N^t)/\log N`, which is
piecewise linear in :math:`0 \le t \le 1` for everything that the depth's grammar writes;
logarithms count as 1. Sums over layers are then maxima:

.. math:: \sum_{k \le N^t} N^{e(k)} \sim N^{\max_{s \le t} (e(s) + s)}.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

ZERO, ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Power:
    """A piecewise linear exponent: its values at the nodes (t, e), t from 0 to 1."""

    nodes: tuple[tuple[Fraction, Fraction], ...]

    @classmethod
    def of(cls, depth: Fraction | int = 0, index: Fraction | int = 0) -> Power:
        """The exponent of :math:`N^{depth} l^{index}`."""
        return cls(((ZERO, Fraction(depth)), (ONE, Fraction(depth) + index)))

    @cached_property
    def _known(self) -> dict[Fraction, Fraction]:
        return dict(self.nodes)

    def at(self, t: Fraction) -> Fraction:
        """e(t)."""
        if t in self._known:
            return self._known[t]
        for (a, low), (b, high) in zip(self.nodes, self.nodes[1:], strict=False):
            if a <= t <= b:
                return low + (high - low) * (t - a) / (b - a)
        raise ValueError(f"{t} is not from 0 to 1")

    def times(self, other: Power) -> Power:
        """The product of two sizes."""
        places = sorted({t for t, _ in (*self.nodes, *other.nodes)})
        return Power(tuple((t, self.at(t) + other.at(t)) for t in places))

    def to(self, exponent: Fraction | int) -> Power:
        """A size to a power."""
        return Power(tuple((t, e * exponent) for t, e in self.nodes))

    def plus(self, other: Power) -> Power:
        """The sum of two sizes, which the larger decides at every t."""
        return self._larger(other, max)

    def smaller(self, other: Power) -> Power:
        """The smaller of two sizes at every t."""
        return self._larger(other, min)

    def _larger(self, other: Power, choose: Callable[[Fraction, Fraction], Fraction]) -> Power:
        places = {t for t, _ in (*self.nodes, *other.nodes)}
        places |= set(_crossings(self, other, sorted(places)))
        return Power(tuple((t, choose(self.at(t), other.at(t))) for t in sorted(places)))

    def summed(self) -> Power:
        """The sum over the layers up to l, as a size at l."""
        terms = self.times(Power.of(index=1)).nodes
        nodes = [terms[0]]
        for (a, low), (b, high) in itertools.pairwise(terms):
            most = nodes[-1][1]
            if high > most > low:  # the sum goes on growing inside this piece
                nodes.append((a + (b - a) * (most - low) / (high - low), most))
            nodes.append((b, max(most, high)))
        return Power(tuple(nodes))

    @property
    def total(self) -> Fraction:
        """The exponent in N of the sum over all layers."""
        return self.summed().nodes[-1][1]

    @property
    def largest(self) -> Fraction:
        """The largest exponent of any layer."""
        return max(e for _, e in self.nodes)

    @property
    def last(self) -> Fraction:
        """The exponent at the last layer."""
        return self.nodes[-1][1]

    def cut(self, exponent: Fraction) -> Power:
        """The sizes of layers up to :math:`N^{exponent}`, the first layers of a deeper stack."""
        kept = [(t, e) for t, e in self.nodes if t < exponent]
        return Power((*kept, (exponent, self.at(exponent))))

    def __str__(self) -> str:
        return ", ".join(f"N^({e}) at l = N^({t})" for t, e in self.nodes)


def _crossings(one: Power, other: Power, places: list[Fraction]) -> Iterator[Fraction]:
    for a, b in itertools.pairwise(places):
        before, after = one.at(a) - other.at(a), one.at(b) - other.at(b)
        if before * after < 0:
            yield a + (b - a) * before / (before - after)
