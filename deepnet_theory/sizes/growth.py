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
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, reduce
from itertools import zip_longest

from deepnet_theory.definitions.expression import DEPTH, INDEXED, Node, OperatorAlgebra, fold
from deepnet_theory.definitions.outcome import InputError, Refusal, shown

ZERO, ONE = Fraction(0), Fraction(1)
DIGITS = 50
OTHER_DEPTH = Fraction(314159265358979, 10**11)  # a depth that is held fixed, at no special value


# ---- leading terms ----


class _Hidden(Exception):  # noqa: N818  never leaves this module
    """Leading terms cancel, and what follows them is not kept."""


@dataclass(frozen=True)
class Leading:
    """``coefficient`` times powers of N, N^ε, log N, log log N …; ``whole`` if nothing follows.

    N^ε is between every power of N and every logarithm: layer N^t is read a little above, or
    below, its t, so that one evaluation tells the slope there too.
    """

    coefficient: Decimal
    powers: tuple[Fraction, ...] = ()
    whole: bool = True

    @classmethod
    def number(cls, value: Fraction) -> Leading:
        return cls(Decimal(value.numerator) / value.denominator)

    def power(self, index: int) -> Fraction:
        return self.powers[index] if len(self.powers) > index else ZERO

    @property
    def _order(self) -> tuple[Fraction, ...]:
        return (*self.powers, *(ZERO,) * (70 - len(self.powers)))  # more than the grammar nests

    def __neg__(self) -> Leading:
        return Leading(-self.coefficient, self.powers, self.whole)

    def __add__(self, other: Leading) -> Leading:
        for one, beside in ((self, other), (other, self)):
            if one.coefficient == 0 and one.whole:
                return beside
        if self.powers != other.powers:
            larger = max(self, other, key=lambda term: term._order)
            return Leading(larger.coefficient, larger.powers, whole=False)
        total, whole = self.coefficient + other.coefficient, self.whole and other.whole
        if abs(total) <= Decimal(10) ** (10 - DIGITS) * abs(self.coefficient):
            if not whole:
                raise _Hidden
            return Leading(Decimal(0))
        return Leading(total, self.powers, whole)

    def __sub__(self, other: Leading) -> Leading:
        return self + -other

    def __mul__(self, other: Leading) -> Leading:
        powers = (a + b for a, b in zip_longest(self.powers, other.powers, fillvalue=ZERO))
        whole = self.whole and other.whole
        return Leading(self.coefficient * other.coefficient, _stripped(powers), whole)

    def __truediv__(self, other: Leading) -> Leading:
        return self * other ** Fraction(-1)

    def __pow__(self, exponent: Fraction) -> Leading:
        if self.coefficient == 0 and exponent <= 0:
            raise ZeroDivisionError
        if self.coefficient < 0 and exponent.denominator != 1:
            raise ValueError
        to = Decimal(exponent.numerator) / exponent.denominator
        return Leading(
            self.coefficient**to, _stripped(p * exponent for p in self.powers), self.whole
        )

    def __gt__(self, other: Leading) -> bool:
        try:
            return (self - other).coefficient > 0
        except _Hidden:
            return False  # alike to leading order, which is all that is kept

    def logarithm(self) -> Leading:
        if self.coefficient <= 0:
            raise ValueError
        for index, power in enumerate(self.powers):
            if power != 0:
                # log N^a is a log N, log (log N)^b is b log log N; log N^ε counts as log N
                grown = (ZERO,) * max(index + 1, 2) + (ONE,)
                alone = self.coefficient == 1 and len(self.powers) == index + 1
                return replace(Leading.number(power), powers=grown, whole=self.whole and alone)
        value = self.coefficient.ln()
        if value == 0 and not self.whole:
            raise _Hidden
        return Leading(value, (), self.whole)


def _stripped(powers: Iterable[Fraction]) -> tuple[Fraction, ...]:
    kept = list(powers)
    while kept and kept[-1] == 0:
        kept.pop()
    return tuple(kept)


@dataclass(frozen=True)
class _Growth(OperatorAlgebra[Leading]):
    """The algebra of leading terms; a name that is not given is held fixed."""

    names: dict[str, tuple[Fraction, ...]]

    def number(self, value: Fraction) -> Leading:
        return Leading.number(value)

    def name(self, name: str) -> Leading:
        if name in self.names:
            return Leading(Decimal(1), self.names[name])
        return Leading.number(OTHER_DEPTH)

    def power(self, base: Leading, exponent: Fraction) -> Leading:
        return base**exponent

    def call(self, function: str, arguments: tuple[Leading, ...]) -> Leading:
        first = arguments[0]
        match function:
            case "sqrt":
                return first ** Fraction(1, 2)
            case "abs":
                return -first if first.coefficient < 0 else first
            case "log":
                return first.logarithm()
            case "max":
                return reduce(lambda one, other: other if other > one else one, arguments)
            case _:  # min
                return reduce(lambda one, other: other if one > other else one, arguments)


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
