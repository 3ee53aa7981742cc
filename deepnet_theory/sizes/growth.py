r"""How a text grows: in the depth N, and at layer :math:`l = N^t` of a stack of N layers.

A text in one depth is evaluated at two depths beyond any model, and its exponent is the slope of
its logarithm between them. Where leading terms cancel the growth is not seen, and the text is
refused.

At layer :math:`l = N^t` a size has the exponent :math:`e(t) = \lim \log f(N, N^t)/\log N`, which is
piecewise linear in :math:`0 \le t \le 1` for monomials and their sums. Sums over layers are then
maxima:

.. math:: \sum_{k \le N^t} N^{e(k)} \sim N^{\max_{s \le t} (e(s) + s)}.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Overflow, localcontext
from fractions import Fraction
from functools import cache, reduce

from deepnet_theory.definitions.expression import DEPTH, INDEXED, Node, OperatorAlgebra, fold
from deepnet_theory.definitions.outcome import InputError, shown
from deepnet_theory.sizes.monomial import read

ZERO, ONE = Fraction(0), Fraction(1)
OTHER_DEPTH = Decimal("3.14159265358979")  # a depth that is held fixed, at no special value
# the logarithms of the two depths: a logarithm of the depth, beside a power, is no slope there
FAR = (10**10, 2 * 10**10)
PRECISE = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
DROPPED = Decimal(10) ** -40  # a term that is smaller beside another is lost
SHARPEST = 10**5  # the largest denominator of an exponent


# ---- far out ----


class _Hidden(Exception):  # noqa: N818  never leaves this module
    """Leading terms cancel, and what follows them is not kept."""


@dataclass(frozen=True)
class _Far:
    """A number at a depth beyond any model; ``lost`` where a smaller term was dropped."""

    value: Decimal
    lost: bool = False

    def __neg__(self) -> _Far:
        return _Far(-self.value, self.lost)

    def __add__(self, other: _Far) -> _Far:
        total, lost = self.value + other.value, self.lost or other.lost
        small, large = sorted((abs(self.value), abs(other.value)))
        if small and abs(total) <= DROPPED * large:
            if lost:
                raise _Hidden
            return _Far(Decimal(0))
        return _Far(total, lost or 0 < small <= DROPPED * large)

    def __sub__(self, other: _Far) -> _Far:
        return self + -other

    def __mul__(self, other: _Far) -> _Far:
        return _Far(self.value * other.value, self.lost or other.lost)

    def __truediv__(self, other: _Far) -> _Far:
        return self * other ** Fraction(-1)

    def __pow__(self, exponent: Fraction) -> _Far:
        if self.value == 0 and exponent <= 0:
            raise ZeroDivisionError
        if self.value < 0 and exponent.denominator != 1:
            raise ValueError
        to = Decimal(exponent.numerator) / exponent.denominator
        return _Far(self.value**to, self.lost)

    def __gt__(self, other: _Far) -> bool:
        return self.value > other.value

    def logarithm(self) -> _Far:
        if self.value <= 0:
            raise ValueError
        value = self.value.ln()
        if self.lost and abs(value) <= DROPPED:
            raise _Hidden
        return _Far(value, self.lost)


@dataclass(frozen=True)
class _OnDecimals(OperatorAlgebra[_Far]):
    """The algebra of such numbers; a name that is not given is held fixed."""

    names: dict[str, Decimal]

    def number(self, value: Fraction) -> _Far:
        return _Far(Decimal(value.numerator) / value.denominator)

    def name(self, name: str) -> _Far:
        return _Far(self.names.get(name, OTHER_DEPTH))

    def power(self, base: _Far, exponent: Fraction) -> _Far:
        return base**exponent

    def call(self, function: str, arguments: tuple[_Far, ...]) -> _Far:
        first = arguments[0]
        match function:
            case "sqrt":
                return first ** Fraction(1, 2)
            case "abs":
                return -first if first.value < 0 else first
            case "log":
                return first.logarithm()
            case "max":
                return reduce(lambda one, other: other if other > one else one, arguments)
            case _:  # min
                return reduce(lambda one, other: one if other > one else other, arguments)


def value_at(root: Node, depths: dict[str, Decimal]) -> Decimal:
    """The value of an expression at such depths, in the precision that is set."""
    found: _Far = fold(root, _OnDecimals(depths))
    return found.value


@cache
def growth(text: str, variable: str) -> Fraction:
    """The exponent of a depth expression in ``variable``, the other depth held fixed.

    Raises :class:`InputError` where there is none, or where the expression is not positive.
    """
    root, logarithms = DEPTH.parse(text).root, []
    try:
        with localcontext(PRECISE):
            for power in FAR:
                depth = {variable: Decimal(10) ** power}
                value = value_at(root, depth)
                logarithms.append(value.log10() if value > 0 else None)
    except ZeroDivisionError:
        raise InputError(f"{shown(text)} divides by zero") from None
    except ValueError:
        raise InputError(f"{shown(text)} has no real value in depth") from None
    except Overflow:
        raise InputError(f"{shown(text)} grows too fast for its exponent to be seen") from None
    except _Hidden:
        raise InputError(
            f"the growth of {shown(text)} is not seen, because its leading terms in {variable} "
            "cancel; write it without the difference"
        ) from None
    low, high = logarithms
    if low is None or high is None:
        raise InputError(f"{shown(text)} is not positive in depth: {variable} grows")
    return (Fraction(high - low) / (FAR[1] - FAR[0])).limit_denominator(SHARPEST)


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
