r"""How a text grows: its leading terms in the depth N, and its size at layer :math:`l = N^t`.

.. math:: \sum_i c_i\,N^{a_i} (\log N)^{b_i}, \qquad \text{the largest first}

A power and a logarithm are expanded around the first term. What is left out is known by its size,
so that terms which cancel down to it are never mistaken for the answer.

At layer :math:`l = N^t` a size has the exponent :math:`e(t) = \lim \log f(N, N^t)/\log N`, which is
piecewise linear in :math:`0 \le t \le 1` for monomials and their sums. Sums over layers are then
maxima:

.. math:: \sum_{k \le N^t} N^{e(k)} \sim N^{\max_{s \le t} (e(s) + s)}.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

from deepnet_theory.definitions.expression import DEPTH, INDEXED, Node, OperatorAlgebra, fold
from deepnet_theory.definitions.outcome import InputError, shown
from deepnet_theory.sizes.monomial import read

KEPT = 4  # terms
CANCELS = 1e-12  # a sum below this share of its terms is 0
FIXED = math.pi  # the value of a depth that does not grow

Coefficient: TypeAlias = Fraction | float
Powers: TypeAlias = tuple[Fraction, Fraction]  # of the depth, and of its logarithm
FLAT: Powers = (Fraction(0), Fraction(0))
LINEAR: Powers = (Fraction(1), Fraction(0))
LOGARITHM: Powers = (Fraction(0), Fraction(1))


class Hidden(Exception):  # noqa: N818  it is no error where the growth is asked for
    """The terms that were kept cancel, and those behind them are not known."""


def _times(powers: Powers, other: Powers, exponent: Fraction | int = 1) -> Powers:
    return powers[0] + exponent * other[0], powers[1] + exponent * other[1]


@dataclass(frozen=True)
class Leading:
    """Coefficients by powers, the largest first; ``beyond`` is the size of what is left out."""

    terms: tuple[tuple[Powers, Coefficient], ...]
    beyond: Powers | None = None

    @classmethod
    def of(cls, terms: Mapping[Powers, Coefficient], beyond: Powers | None = None) -> Leading:
        seen = [(p, c) for p, c in terms.items() if c and (beyond is None or p > beyond)]
        seen.sort(reverse=True)
        return cls(tuple(seen[:KEPT]), seen[KEPT][0] if len(seen) > KEPT else beyond)

    @classmethod
    def number(cls, value: Coefficient) -> Leading:
        return cls.of({FLAT: value})

    @property
    def leading(self) -> tuple[Powers, Coefficient]:
        """The first term, 0 where there is none; raises :class:`Hidden` where it is not known."""
        if not self.terms and self.beyond is not None:
            raise Hidden
        return self.terms[0] if self.terms else (FLAT, Fraction(0))

    def __add__(self, other: Leading) -> Leading:
        total = dict(self.terms)
        for powers, c in other.terms:
            before: Coefficient = total.get(powers, Fraction(0))
            null = abs(float(before + c)) <= CANCELS * abs(float(before))
            total[powers] = Fraction(0) if null else before + c
        beyond = [b for b in (self.beyond, other.beyond) if b is not None]
        return Leading.of(total, max(beyond) if beyond else None)

    def __sub__(self, other: Leading) -> Leading:
        return self + other * Leading.number(Fraction(-1))

    def __mul__(self, other: Leading) -> Leading:
        total = Leading(())
        for powers, c in self.terms:
            beyond = None if other.beyond is None else _times(powers, other.beyond)
            total += Leading.of({_times(powers, p): c * by for p, by in other.terms}, beyond)
        largest = other.terms[0][0] if other.terms else other.beyond
        if self.beyond is None or largest is None:
            return total
        return total + Leading((), _times(self.beyond, largest))

    def __truediv__(self, other: Leading) -> Leading:
        return self * other ** Fraction(-1)

    def __pow__(self, exponent: Fraction) -> Leading:
        """By the binomial series around the leading term; of one term exactly."""
        powers, leading = self.leading
        if not leading:
            if exponent <= 0:
                raise ZeroDivisionError
            return self
        if leading < 0 and exponent.denominator != 1:
            raise ValueError("a root of what is negative")
        first = Fraction(1) if leading == 1 else leading**exponent
        binomial = [Fraction(1)]
        for order in range(KEPT):
            binomial.append(binomial[-1] * (exponent - order) / (order + 1))
        return self._around(binomial) * Leading.of({_times(FLAT, powers, exponent): first})

    def _around(self, coefficients: Iterable[Coefficient]) -> Leading:
        """Σ aₖ xᵏ, where the series is its leading term times 1 + x."""
        powers, leading = self.leading
        over = Leading.of({_times(FLAT, powers, -1): 1 / leading})
        small = over * Leading(self.terms[1:], self.beyond)
        total, factor = Leading(()), Leading.number(Fraction(1))
        for coefficient in coefficients:
            total, factor = total + factor * Leading.number(coefficient), factor * small
        return total + Leading((), factor.terms[0][0] if factor.terms else factor.beyond)

    def logarithm(self) -> Leading:
        (power, of_logarithm), leading = self.leading
        constant = Fraction(0) if leading == 1 else math.log(leading)  # raises where it has none
        if of_logarithm:
            raise Hidden
        terms = [Fraction((-1) ** (order + 1), order) for order in range(1, KEPT + 1)]
        return self._around([constant, *terms]) + Leading.of({LOGARITHM: power})

    def __abs__(self) -> Leading:
        return Leading(()) - self if self.leading[1] < 0 else self

    def __gt__(self, other: Leading) -> bool:
        return (self - other).leading[1] > 0


class _Expanded(OperatorAlgebra[Leading]):
    """Expands an expression; a name other than the one that grows is held fixed."""

    def __init__(self, variable: str) -> None:
        self.variable = variable

    def number(self, value: Fraction) -> Leading:
        return Leading.number(value)

    def name(self, name: str) -> Leading:
        return Leading.of({LINEAR: 1}) if name == self.variable else Leading.number(FIXED)

    def power(self, base: Leading, exponent: Fraction) -> Leading:
        return base**exponent

    def call(self, function: str, arguments: tuple[Leading, ...]) -> Leading:
        if function in ("max", "min"):
            return max(arguments) if function == "max" else min(arguments)
        (inner,) = arguments
        if function == "log":
            return inner.logarithm()
        return abs(inner) if function == "abs" else inner ** Fraction(1, 2)


def expanded(root: Node, variable: str) -> Leading:
    """The leading terms of an expression in ``variable``.

    Raises :class:`Hidden` where a term that decides is not known, ``ZeroDivisionError`` and
    ``ValueError`` where the expression has no real value.
    """
    series: Leading = fold(root, _Expanded(variable))
    return series


# ---- the exponent of a text ----

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
