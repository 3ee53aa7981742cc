r"""How a text grows: its leading term in the depth N, and the next one.

.. math:: c\,N^a (\log N)^b \,\bigl(1 + c' N^{a'} (\log N)^{b'} + \dots\bigr)

A text whose leading terms cancel is refused, since nothing is known behind the next one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import TypeAlias

from deepnet_theory.definitions.expression import DEPTH, INDEXED, Algebra, Functions, Node, fold
from deepnet_theory.definitions.outcome import InputError, shown
from deepnet_theory.sizes.monomial import Monomial, read

CANCELS = 1e-12  # a sum of floats below this share of its terms is lost
FIXED = math.pi  # the value of a depth that does not grow

Coefficient: TypeAlias = Fraction | float
Powers: TypeAlias = tuple[Fraction, Fraction]  # of the depth, and of its logarithm
Term: TypeAlias = tuple[Powers, Coefficient]
FLAT: Powers = (Fraction(0), Fraction(0))
LOGARITHM: Powers = (Fraction(0), Fraction(1))


class Hidden(Exception):  # noqa: N818  it is no error where the growth is asked for
    """Leading terms cancel, and those behind them are not known."""


def _times(powers: Powers, other: Powers, exponent: Fraction | int = 1) -> Powers:
    return powers[0] + exponent * other[0], powers[1] + exponent * other[1]


def _next(*terms: Term | None) -> Term | None:
    """The leading term of a sum; of a coefficient of 0 where what follows is not known."""
    known = [term for term in terms if term is not None]
    if not known:
        return None
    first = max(powers for powers, _ in known)
    return first, sum((c for powers, c in known if powers == first), Fraction(0))


@dataclass(frozen=True)
class Leading:
    """A leading term; ``rest`` is the next one over it, None where there is nothing else."""

    coefficient: Coefficient
    powers: Powers = FLAT
    rest: Term | None = None

    def _rest(self, powers: Powers = FLAT, times: Coefficient = 1) -> Term | None:
        """The rest times a coefficient and powers."""
        return self.rest and (_times(self.rest[0], powers), self.rest[1] * times)

    def __add__(self, other: Leading) -> Leading:
        if not self.coefficient or not other.coefficient:
            return self if self.coefficient else other
        large, small = (self, other) if self.powers > other.powers else (other, self)
        if large.powers > small.powers:
            behind = _times(small.powers, large.powers, -1), small.coefficient / large.coefficient
            return replace(large, rest=_next(large.rest, behind))
        total = large.coefficient + small.coefficient
        if abs(float(total)) <= CANCELS * abs(float(large.coefficient)):
            if total or isinstance(total, float) or large.rest or small.rest:
                raise Hidden
            return Leading(Fraction(0))
        rests = (term._rest(times=term.coefficient / total) for term in (large, small))
        return Leading(total, large.powers, _next(*rests))

    def __sub__(self, other: Leading) -> Leading:
        return self + other * Leading(Fraction(-1))

    def __mul__(self, other: Leading) -> Leading:
        if not self.coefficient or not other.coefficient:
            return Leading(Fraction(0))
        powers, rest = _times(self.powers, other.powers), _next(self.rest, other.rest)
        return Leading(self.coefficient * other.coefficient, powers, rest)

    def __truediv__(self, other: Leading) -> Leading:
        return self * other ** Fraction(-1)

    def __pow__(self, exponent: Fraction) -> Leading:
        if not self.coefficient:
            if exponent <= 0:
                raise ZeroDivisionError
            return self
        if self.coefficient < 0 and exponent.denominator != 1:
            raise ValueError("a root of what is negative")
        first = Fraction(1) if self.coefficient == 1 else self.coefficient**exponent
        rest = self._rest(times=exponent) if exponent else None
        return Leading(first, _times(FLAT, self.powers, exponent), rest)

    def logarithm(self) -> Leading:
        """Raises ``ValueError`` where it has none."""
        (power, of_logarithm), constant = self.powers, math.log(self.coefficient)
        if of_logarithm or (self.rest and not power and not constant):
            raise Hidden
        if not power:
            return Leading(constant or Fraction(0), rest=self._rest(times=1 / (constant or 1)))
        # log(c N^a (1 + r)) = a log N + log c + r
        over = Leading(Fraction(1), LOGARITHM) ** Fraction(-1)
        behind = (over.powers, constant / power) if constant else None
        return Leading(power, LOGARITHM, _next(behind, self._rest(over.powers, 1 / power)))

    def __abs__(self) -> Leading:
        return Leading(Fraction(0)) - self if self.coefficient < 0 else self

    def place(self) -> tuple[Coefficient, ...]:
        """Sorts by the value at great depth."""
        powers, behind = self.rest or (FLAT, 0)
        terms = ((self.powers, self.coefficient), (powers, behind * self.coefficient))
        signed = ((p, c, (c > 0) - (c < 0)) for p, c in terms)
        return tuple(x for p, c, sign in signed for x in (sign, sign * p[0], sign * p[1], c))

    def of(self, inner: Leading) -> Leading:
        """This term, which has no logarithm, with another one in place of its symbol."""
        term, rest = inner ** self.powers[0] * Leading(self.coefficient), None
        if self.rest is not None:
            behind = inner ** self.rest[0][0]
            rest = behind.powers, behind.coefficient * self.rest[1]
        return replace(term, rest=_next(term.rest, rest))


SYMBOL = Leading(Fraction(1), (Fraction(1), Fraction(0)))  # the depth itself
_FUNCTIONS: Functions = {
    "max": partial(max, key=Leading.place),
    "min": partial(min, key=Leading.place),
    "log": Leading.logarithm,
    "abs": abs,
    "sqrt": lambda term: term ** Fraction(1, 2),
}


def expanded(root: Node, variable: str) -> Leading:
    """The leading term of an expression in ``variable``; its other names are held fixed.

    Raises :class:`Hidden` where it is not known, ``ZeroDivisionError`` and ``ValueError`` where
    the expression has no real value.
    """
    names = {**dict.fromkeys(INDEXED.symbols, Leading(FIXED)), variable: SYMBOL}
    term: Leading = fold(root, Algebra(names, _FUNCTIONS, number=Leading, power=pow))
    return term


@cache
def growth(text: str, variable: str) -> Fraction:
    """The exponent of a depth expression in ``variable``, the other depth held fixed.

    Raises :class:`InputError` where there is none, or where the expression is not positive.
    """
    try:
        term = expanded(DEPTH.parse(text).root, variable)
    except ZeroDivisionError:
        raise InputError(f"{shown(text)} divides by zero") from None
    except ValueError:
        raise InputError(f"{shown(text)} has no real value in depth") from None
    except Hidden:
        raise InputError(
            f"the growth of {shown(text)} is not seen, because its leading terms in {variable} "
            "cancel; write it without the difference"
        ) from None
    if term.coefficient <= 0:
        raise InputError(f"{shown(text)} is not positive in depth: {variable} grows")
    return term.powers[0]


@cache
def size_of(text: str, depth: str) -> Monomial | None:
    """The size of a scheme's text in one depth and the layer's index l; None where it is 0.

    A text in l is a monomial; ``ValueError`` is raised where it is none.
    """
    expression = INDEXED.parse(text)
    if text == "0":
        return None
    if "l" not in expression.names:
        return Monomial.of(depth) ** growth(text, depth)
    return read(expression.root).without_number
