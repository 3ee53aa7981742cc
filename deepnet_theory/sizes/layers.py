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
from functools import cache, cached_property

from deepnet_theory.spec.errors import Refusal, shown
from deepnet_theory.spec.expression import OperatorAlgebra, fold
from deepnet_theory.spec.scheme import INDEXED

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
        if t in self._known:
            return self._known[t]
        for (a, low), (b, high) in zip(self.nodes, self.nodes[1:], strict=False):
            if a <= t <= b:
                return low + (high - low) * (t - a) / (b - a)
        raise ValueError(f"{t} is not from 0 to 1")

    def __mul__(self, other: Power) -> Power:
        places = sorted({t for t, _ in (*self.nodes, *other.nodes)})
        return Power(tuple((t, self.at(t) + other.at(t)) for t in places))

    def __pow__(self, exponent: Fraction | int) -> Power:
        return Power(tuple((t, e * exponent) for t, e in self.nodes))

    def __add__(self, other: Power) -> Power:
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
        terms = (self * Power.of(index=1)).nodes
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


@dataclass(frozen=True)
class _Term:
    """A size and its sign; a size of None is 0."""

    size: Power | None
    sign: int = 1


class _Cancels(Exception):  # noqa: N818  never leaves this module
    """The leading terms of a sum cancel."""


class _Sizes(OperatorAlgebra[_Term]):
    def __init__(self, depth: str) -> None:
        self.names = {depth: Power.of(depth=1), "l": Power.of(index=1)}

    def number(self, value: Fraction) -> _Term:
        return _Term(Power.of() if value else None, 1 if value >= 0 else -1)

    def name(self, name: str) -> _Term:
        return _Term(self.names.get(name, Power.of()))

    def add(self, left: _Term, right: _Term) -> _Term:
        if left.size is None or right.size is None:
            return right if left.size is None else left
        total = left.size + right.size
        if left.sign == right.sign:
            return _Term(total, left.sign)
        leads = {
            one.sign
            for (a, _), (b, _) in itertools.pairwise(total.nodes)
            for one in (left, right)
            if one.size is not None and one.size.at((a + b) / 2) == total.at((a + b) / 2)
        }
        if len(leads) > 1:
            raise _Cancels
        return _Term(total, leads.pop())

    def subtract(self, left: _Term, right: _Term) -> _Term:
        return self.add(left, _Term(right.size, -right.sign))

    def multiply(self, left: _Term, right: _Term) -> _Term:
        sign = left.sign * right.sign
        if left.size is None or right.size is None:
            return _Term(None, sign)
        return _Term(left.size * right.size, sign)

    def divide(self, left: _Term, right: _Term) -> _Term:
        return self.multiply(left, self.power(right, Fraction(-1)))

    def power(self, base: _Term, exponent: Fraction) -> _Term:
        if base.size is None and exponent <= 0:
            raise ZeroDivisionError
        sign = 1 if exponent.numerator % 2 == 0 else base.sign
        return _Term(None if base.size is None else base.size**exponent, sign)

    def call(self, function: str, arguments: tuple[_Term, ...]) -> _Term:
        first, *others = arguments
        match function:
            case "sqrt":
                return self.power(first, Fraction(1, 2))
            case "abs":
                return _Term(first.size)
            case "log":  # slower than every power
                return _Term(Power.of())
        join = Power.__add__ if function == "max" else Power.smaller
        for other in others:
            if first.size is None or other.size is None:
                first = other if (first.size is None) == (function == "max") else first
            else:
                first = _Term(join(first.size, other.size))
        return first


@cache
def size_of(text: str, depth: str) -> Power | None:
    """The size of a scheme's text as one depth grows; None where it is 0.

    Raises :class:`Refusal` where leading terms cancel.
    """
    try:
        term: _Term = fold(INDEXED.parse(text).root, _Sizes(depth))
    except _Cancels:
        raise Refusal(
            f"the leading terms of {shown(text)} cancel, and its size is not seen"
        ) from None
    return term.size
