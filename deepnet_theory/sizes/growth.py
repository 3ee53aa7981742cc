r"""How a text grows: in the depth N, and at layer :math:`l = N^t` of a stack of N layers.

Every value is its leading term, :math:`c\,N^a(\log N)^b(\log\log N)^d\cdots`, so that the time is
that of one walk through the tree. The exponents are exact; where leading terms cancel the growth is
not seen, and the text is refused.

At layer :math:`l = N^t` a size has the exponent :math:`e(t) = \lim \log f(N, N^t)/\log N`, which is
piecewise linear in :math:`0 \le t \le 1` for everything that the grammar writes. Sums over layers
are then maxima:

.. math:: \sum_{k \le N^t} N^{e(k)} \sim N^{\max_{s \le t} (e(s) + s)}.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import zip_longest

from deepnet_theory.spec.errors import InputError, Refusal, shown
from deepnet_theory.spec.expression import DEPTH, Node, fold
from deepnet_theory.spec.scheme import INDEXED

ZERO, ONE = Fraction(0), Fraction(1)
DIGITS = 50
OTHER_DEPTH = Fraction(314159265358979, 10**11)  # a depth that is held fixed, at no special value


# ---- leading terms ----


@dataclass(frozen=True)
class Leading:
    """``coefficient`` times powers of N, N^ε, log N, log log N …; ``whole`` if nothing follows.

    N^ε is between every power of N and every logarithm: layer N^t is read a little above, or
    below, its t, so that one evaluation tells the slope there too.
    """

    coefficient: Decimal
    powers: tuple[Fraction, ...] = ()
    whole: bool = True

    def times(self, other: Leading) -> Leading:
        powers = (a + b for a, b in zip_longest(self.powers, other.powers, fillvalue=ZERO))
        whole = self.whole and other.whole
        return Leading(self.coefficient * other.coefficient, _stripped(powers), whole)

    def power(self, index: int) -> Fraction:
        return self.powers[index] if len(self.powers) > index else ZERO


def _stripped(powers: Iterable[Fraction]) -> tuple[Fraction, ...]:
    kept = list(powers)
    while kept and kept[-1] == 0:
        kept.pop()
    return tuple(kept)


def _order(term: Leading) -> tuple[Fraction, ...]:
    return (*term.powers, *(ZERO,) * (70 - len(term.powers)))  # more than the grammar nests


class _Hidden(Exception):  # noqa: N818  never leaves this module
    """Leading terms cancel, and what follows them is not kept."""


@dataclass(frozen=True)
class _Growth:
    """The algebra of leading terms; a name that is not given is held fixed."""

    names: dict[str, tuple[Fraction, ...]]

    def number(self, value: Fraction) -> Leading:
        return Leading(Decimal(value.numerator) / value.denominator)

    def name(self, name: str) -> Leading:
        if name in self.names:
            return Leading(Decimal(1), self.names[name])
        return self.number(OTHER_DEPTH)

    def add(self, left: Leading, right: Leading) -> Leading:
        for one, other in ((left, right), (right, left)):
            if one.coefficient == 0 and one.whole:
                return other
        if left.powers != right.powers:
            larger = max(left, right, key=_order)
            return Leading(larger.coefficient, larger.powers, whole=False)
        total, whole = left.coefficient + right.coefficient, left.whole and right.whole
        if abs(total) <= Decimal(10) ** (10 - DIGITS) * abs(left.coefficient):
            if not whole:
                raise _Hidden
            return Leading(Decimal(0))
        return Leading(total, left.powers, whole)

    def subtract(self, left: Leading, right: Leading) -> Leading:
        return self.add(left, right.times(Leading(Decimal(-1))))

    def multiply(self, left: Leading, right: Leading) -> Leading:
        return left.times(right)

    def divide(self, left: Leading, right: Leading) -> Leading:
        return left.times(self.power(right, Fraction(-1)))

    def power(self, base: Leading, exponent: Fraction) -> Leading:
        if base.coefficient == 0 and exponent <= 0:
            raise ZeroDivisionError
        if base.coefficient < 0 and exponent.denominator != 1:
            raise ValueError
        to = Decimal(exponent.numerator) / exponent.denominator
        powers = _stripped(p * exponent for p in base.powers)
        return Leading(base.coefficient**to, powers, base.whole)

    def call(self, function: str, arguments: tuple[Leading, ...]) -> Leading:
        first = arguments[0]
        match function:
            case "sqrt":
                return self.power(first, Fraction(1, 2))
            case "abs":
                return Leading(abs(first.coefficient), first.powers, first.whole)
            case "log":
                return self._logarithm(first)
            case _:  # max, min
                way = 1 if function == "max" else -1
                for other in arguments[1:]:
                    first = other if way * self._compare(other, first) > 0 else first
                return first

    def _compare(self, left: Leading, right: Leading) -> Decimal:
        try:
            return self.subtract(left, right).coefficient
        except _Hidden:
            return Decimal(0)  # alike to leading order, which is all that is kept

    def _logarithm(self, term: Leading) -> Leading:
        if term.coefficient <= 0:
            raise ValueError
        for index, power in enumerate(term.powers):
            if power != 0:
                # log N^a is a log N, log (log N)^b is b log log N; log N^ε counts as log N
                grown = (ZERO,) * max(index + 1, 2) + (ONE,)
                alone = term.coefficient == 1 and len(term.powers) == index + 1
                coefficient = Decimal(power.numerator) / power.denominator
                return Leading(coefficient, grown, term.whole and alone)
        value = term.coefficient.ln()
        if value == 0 and not term.whole:
            raise _Hidden
        return Leading(value, (), term.whole)


def _leading(root: Node, names: dict[str, tuple[Fraction, ...]]) -> Leading:
    # No limit is taken: one walk through the tree takes a bounded time, whatever a user types
    with localcontext(prec=DIGITS):
        term: Leading = fold(root, _Growth(names))
        return term


@cache
def leading_term(text: str, variable: str) -> Leading:
    """The leading term of a depth expression as ``variable`` grows, the other depth held fixed.

    Raises :class:`InputError` where there is none, or where it is not positive.
    """
    root = DEPTH.parse(text).root
    try:
        term = _leading(root, {variable: (ONE,)})
    except ZeroDivisionError:
        raise InputError(f"{shown(text)} divides by zero") from None
    except ValueError:
        raise InputError(f"{shown(text)} has no real value in depth") from None
    except _Hidden:
        raise InputError(
            f"the growth of {shown(text)} is not seen, because its leading terms in {variable} "
            "cancel; write it without the difference"
        ) from None
    if term.coefficient <= 0:
        raise InputError(f"{shown(text)} is not positive in depth: {variable} grows")
    return term


def growth(text: str, variable: str) -> Fraction:
    """The exponent of a depth expression in ``variable``, the other depth held fixed."""
    return leading_term(text, variable).power(0)


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
        if len(self.nodes) == len(other.nodes) == 2:  # which most are: no bend between 0 and 1
            (_, low), (_, high) = self.nodes
            (_, lower), (_, higher) = other.nodes
            return Power(((ZERO, low + lower), (ONE, high + higher)))
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

    def largest(self, last: Fraction = ONE) -> Fraction:
        """The largest exponent of any layer up to :math:`N^{last}`."""
        return max(self.at(last), *(e for t, e in self.nodes if t <= last))

    def __str__(self) -> str:
        return ", ".join(f"N^({e}) at l = N^({t})" for t, e in self.nodes)


CONSTANT = Power(((ZERO, ZERO), (ONE, ZERO)))


@cache
def size_of(text: str, depth: str) -> Power | None:
    """The size of a scheme's text as one depth grows; None where it is 0.

    Raises :class:`Refusal` where leading terms cancel.
    """
    expression = INDEXED.parse(text)
    if "l" not in expression.names:
        term = _at_layer(text, expression.root, depth, ZERO, ONE)
        return Power.of(term.power(0)) if term.coefficient else None

    def line(t: Fraction, side: Fraction) -> tuple[Fraction, Fraction]:
        """The exponent at t, and its slope on one side of it."""
        term = _at_layer(text, expression.root, depth, t, side)
        return term.power(0), term.power(1) * side

    def pieces(a: Fraction, b: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
        """The nodes behind a, up to b: two lines that meet between them bend there, or further."""
        (low, rises), (high, falls) = line(a, ONE), line(b, -ONE)
        if low + rises * (b - a) != high or rises != falls:
            meet = (high - low + rises * a - falls * b) / (rises - falls) if rises != falls else a
            middle = meet if a < meet < b else (a + b) / 2
            yield from pieces(a, middle)
            yield from pieces(middle, b)
        else:
            yield b, high

    if not _at_layer(text, expression.root, depth, ZERO, ONE).coefficient:
        return None
    return Power(((ZERO, line(ZERO, ONE)[0]), *pieces(ZERO, ONE)))


def _at_layer(text: str, root: Node, depth: str, t: Fraction, side: Fraction) -> Leading:
    try:
        return _leading(root, {depth: (ONE,), "l": (t, side)})
    except _Hidden:
        raise Refusal(
            f"the leading terms of {shown(text)} cancel, and its size is not seen"
        ) from None
