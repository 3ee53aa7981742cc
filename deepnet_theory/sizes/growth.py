r"""How a text grows: in the depth N, and at layer :math:`l = N^t` of a stack of N layers.

At layer :math:`l = N^t` a size has the exponent :math:`e(t) = \lim \log f(N, N^t)/\log N`, which is
piecewise linear in :math:`0 \le t \le 1` for monomials and their sums. Sums over layers are then
maxima:

.. math:: \sum_{k \le N^t} N^{e(k)} \sim N^{\max_{s \le t} (e(s) + s)}.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from deepnet_theory.definitions.expression import DEPTH, INDEXED
from deepnet_theory.definitions.outcome import InputError, shown
from deepnet_theory.sizes.leading import Hidden, expanded
from deepnet_theory.sizes.monomial import read

ZERO, ONE = Fraction(0), Fraction(1)


@cache
def growth(text: str, variable: str) -> Fraction:
    """The exponent of a depth expression in ``variable``, the other depth held fixed.

    Raises :class:`InputError` where there is none, or where the expression is not positive.
    """
    try:
        powers, leading = expanded(DEPTH.parse(text).root, variable).leading
    except ZeroDivisionError:
        raise InputError(f"{shown(text)} divides by zero") from None
    except ValueError:
        raise InputError(f"{shown(text)} has no real value in depth") from None
    except Hidden:
        raise InputError(
            f"the growth of {shown(text)} is not seen, because its leading terms in {variable} "
            "cancel; write it without the difference"
        ) from None
    if leading <= 0:
        raise InputError(f"{shown(text)} is not positive in depth: {variable} grows")
    return powers[0]


# ---- sizes at every layer ----


@dataclass(frozen=True)
class Power:
    """A piecewise linear exponent: its values at the nodes (t, e), t from 0 to 1."""

    nodes: tuple[tuple[Fraction, Fraction], ...]

    @classmethod
    def of(cls, depth: Fraction | int = 0, index: Fraction | int = 0) -> Power:
        """The exponent of :math:`N^{depth} l^{index}`."""
        if not depth and not index:
            return CONSTANT
        return cls(((ZERO, Fraction(depth)), (ONE, Fraction(depth) + index)))

    def at(self, t: Fraction) -> Fraction:
        for (a, low), (b, high) in itertools.pairwise(self.nodes):
            if a <= t <= b:
                return low if low == high or a == t else low + (high - low) * (t - a) / (b - a)
        raise ValueError(f"{t} is not from 0 to 1")

    def __mul__(self, other: Power) -> Power:
        if self is CONSTANT or other is CONSTANT:
            return self if other is CONSTANT else other
        return Power(tuple((t, self.at(t) + other.at(t)) for t in self._places(other)))

    def __pow__(self, exponent: Fraction | int) -> Power:
        if self is CONSTANT or exponent == 1:
            return self
        return Power(tuple((t, e * exponent) for t, e in self.nodes)) if exponent else CONSTANT

    def __add__(self, other: Power) -> Power:
        """The sum of two sizes, which the larger decides at every t."""
        if self is other:
            return self
        places = self._places(other)
        for a, b in itertools.pairwise(tuple(places)):
            before, after = self.at(a) - other.at(a), self.at(b) - other.at(b)
            if before * after < 0:
                places.append(a + (b - a) * before / (before - after))
        return Power(tuple((t, max(self.at(t), other.at(t))) for t in sorted(places)))

    def _places(self, other: Power) -> list[Fraction]:
        return sorted({t for t, _ in (*self.nodes, *other.nodes)})

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

    def total(self, last: Fraction) -> Fraction:
        """The exponent of the sum over :math:`N^{last}` layers."""
        return (self * Power.of(index=1)).largest(last)

    def largest(self, last: Fraction = ONE) -> Fraction:
        """The largest exponent of any layer up to :math:`N^{last}`."""
        return max(self.at(last), *(e for t, e in self.nodes if t <= last))

    def __str__(self) -> str:
        return ", ".join(f"N^({e}) at l = N^({t})" for t, e in self.nodes)


CONSTANT = Power(((ZERO, ZERO), (ONE, ZERO)))


@cache
def size_of(text: str, depth: str) -> Power | None:
    """The size of a scheme's text as one depth grows; None where it is 0.

    A text in the layer's index l is a monomial; ``ValueError`` is raised where it is none.
    """
    expression = INDEXED.parse(text)
    if text == "0":
        return None
    if "l" not in expression.names:
        return Power.of(growth(text, depth))
    size = read(expression.root, {})
    return Power.of(size.exponent(depth), size.exponent("l"))
