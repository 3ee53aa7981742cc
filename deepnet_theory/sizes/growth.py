r"""How an expression in the depths grows: :math:`\lim_{N\to\infty}\log f(N)/\log N`, exactly.

Every value is its leading term, :math:`c\,N^a(\log N)^b(\log\log N)^d\cdots`, so that the time is
that of one walk through the tree. The exponents are exact; where leading terms cancel the
growth is not seen, and the expression is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import zip_longest

from deepnet_theory.spec.errors import InputError, shown
from deepnet_theory.spec.expression import DEPTH, fold

DIGITS = 50
OTHER_DEPTH = Fraction(314159265358979, 10**11)  # a depth that is held fixed, at no special value


@dataclass(frozen=True)
class Leading:
    """``coefficient`` times the powers of N, log N, log log N …; ``whole`` if nothing follows."""

    coefficient: Decimal
    powers: tuple[Fraction, ...] = ()
    whole: bool = True

    def times(
        self, factor: Decimal, powers: tuple[Fraction, ...] = (), whole: bool = True
    ) -> Leading:
        together = (a + b for a, b in zip_longest(self.powers, powers, fillvalue=Fraction(0)))
        return Leading(self.coefficient * factor, _stripped(together), self.whole and whole)


def _stripped(powers: Iterable[Fraction]) -> tuple[Fraction, ...]:
    kept = list(powers)
    while kept and kept[-1] == 0:
        kept.pop()
    return tuple(kept)


class _Hidden(Exception):  # noqa: N818  never leaves this module
    """Leading terms cancel, and what follows them is not kept."""


@dataclass(frozen=True)
class _Growth:
    """The algebra of leading terms, one depth growing and the other held."""

    variable: str

    def number(self, value: Fraction) -> Leading:
        return Leading(Decimal(value.numerator) / value.denominator)

    def name(self, name: str) -> Leading:
        if name == self.variable:
            return Leading(Decimal(1), (Fraction(1),))
        return self.number(OTHER_DEPTH)

    def add(self, left: Leading, right: Leading) -> Leading:
        for one, other in ((left, right), (right, left)):
            if one.coefficient == 0 and one.whole:
                return other
        if left.powers != right.powers:
            larger = max(left, right, key=lambda term: _order(term.powers))
            return Leading(larger.coefficient, larger.powers, whole=False)
        total = left.coefficient + right.coefficient
        whole = left.whole and right.whole
        if abs(total) <= Decimal(10) ** (10 - DIGITS) * abs(left.coefficient):
            if not whole:
                raise _Hidden
            return Leading(Decimal(0))
        return Leading(total, left.powers, whole)

    def subtract(self, left: Leading, right: Leading) -> Leading:
        return self.add(left, right.times(Decimal(-1)))

    def multiply(self, left: Leading, right: Leading) -> Leading:
        return left.times(right.coefficient, right.powers, right.whole)

    def divide(self, left: Leading, right: Leading) -> Leading:
        return self.multiply(left, self.power(right, Fraction(-1)))

    def power(self, base: Leading, exponent: Fraction) -> Leading:
        if base.coefficient == 0 and exponent <= 0:
            raise ZeroDivisionError
        if base.coefficient < 0 and exponent.denominator != 1:
            raise ValueError
        powers = _stripped(p * exponent for p in base.powers)
        whole = exponent.denominator == 1
        to = Decimal(exponent.numerator) / (1 if whole else exponent.denominator)
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

    def _logarithm(self, of: Leading) -> Leading:
        if of.coefficient <= 0:
            raise ValueError
        for index, power in enumerate(of.powers):
            if power != 0:
                # log N^a is a log N, log (log N)^b is b log log N
                grown = (Fraction(0),) * (index + 1) + (Fraction(1),)
                whole = of.whole and of.coefficient == 1 and len(of.powers) == index + 1
                return Leading(Decimal(power.numerator) / power.denominator, grown, whole)
        value = of.coefficient.ln()
        if value == 0 and not of.whole:
            raise _Hidden
        return Leading(value, (), of.whole)


def _order(powers: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    return (*powers, *(Fraction(0),) * (70 - len(powers)))  # more than the grammar nests


@cache
def leading_term(text: str, variable: str) -> Leading:
    """The leading term of a depth expression as ``variable`` grows.

    Raises :class:`InputError` where there is none, or where it is not positive.
    """
    expression = DEPTH.parse(text)
    try:
        with localcontext(prec=DIGITS):
            found: Leading = fold(expression.root, _Growth(variable))
            positive = found.coefficient > 0
    except ZeroDivisionError:
        raise InputError(f"{shown(text)} divides by zero") from None
    except ValueError:
        raise InputError(f"{shown(text)} has no real value in depth") from None
    except _Hidden:
        raise InputError(
            f"the growth of {shown(text)} is not seen, because its leading terms in {variable} "
            "cancel; write it without the difference"
        ) from None
    if not positive:
        raise InputError(f"{shown(text)} is not positive in depth: {variable} grows")
    return found


def growth(text: str, variable: str) -> Fraction:
    """The exponent of a depth expression in ``variable``, the other depth held fixed."""
    powers = leading_term(text, variable).powers
    return powers[0] if powers else Fraction(0)
