r"""The value that α, β, κ, ρ and every multiplier are: a positive monomial with exact exponents.

.. math:: \prod_b b^{e_b}, \qquad b \text{ a prime or a symbol such as } N, \quad e_b \in \mathbb{Q}

Text is how it prints: :meth:`Monomial.__str__` writes the grammar of depth expressions, and
:func:`parse` reads it back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import gcd, lcm

from deepnet_theory.definitions.expression import DEPTH, INDEXED, Algebra, Node, fold

_ORDER = {"N": 0, "M": 1, "d": 2}  # symbols that lead where one is printed


@cache
def _primes(number: int) -> tuple[tuple[str, int], ...]:
    """The prime factors of a positive whole number, with their powers."""
    factors, divisor = [], 2
    while divisor * divisor <= number:
        power = 0
        while number % divisor == 0:
            number //= divisor
            power += 1
        if power:
            factors.append((str(divisor), power))
        divisor += 1
    return (*factors, (str(number), 1)) if number > 1 else tuple(factors)


@dataclass(frozen=True)
class Monomial:
    """Exponents by base, none of them 0; bases in the order of their names.

    Products, quotients and powers are those of the value: ``Monomial.of("N") ** Fraction(1, 2)``.
    """

    items: tuple[tuple[str, Fraction], ...] = ()

    @classmethod
    def of(cls, *symbols: str) -> Monomial:
        return cls.from_powers({symbol: Fraction(symbols.count(symbol)) for symbol in symbols})

    @classmethod
    def number(cls, value: Fraction | int) -> Monomial:
        """A positive rational, factored into primes; raises ``ValueError`` for any other."""
        value = Fraction(value)
        if value <= 0:
            raise ValueError(f"{value} is not positive")
        powers = {base: Fraction(power) for base, power in _primes(value.numerator)}
        for base, power in _primes(value.denominator):
            powers[base] = Fraction(-power)
        return cls.from_powers(powers)

    @classmethod
    def from_powers(cls, powers: Mapping[str, Fraction]) -> Monomial:
        return cls(tuple(sorted((b, p) for b, p in powers.items() if p)))

    def exponent(self, symbol: str) -> Fraction:
        """The exponent of one base, 0 where it does not occur."""
        return next((power for base, power in self.items if base == symbol), Fraction(0))

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that occur, primes left out."""
        return frozenset(base for base, _ in self.items if not base.isdigit())

    @property
    def without_number(self) -> Monomial:
        """The powers of its symbols alone."""
        return Monomial(tuple((base, power) for base, power in self.items if not base.isdigit()))

    def __mul__(self, other: Monomial) -> Monomial:
        if not other.items:
            return self
        powers = dict(self.items)
        for base, power in other.items:
            powers[base] = powers.get(base, Fraction(0)) + power
        return Monomial.from_powers(powers)

    def __truediv__(self, other: Monomial) -> Monomial:
        return self * other**-1

    def __pow__(self, exponent: Fraction | int) -> Monomial:
        return Monomial(tuple((b, p * exponent) for b, p in self.items) if exponent else ())

    def put(self, values: Mapping[str, Monomial]) -> Monomial:
        """The same with values in place of symbols."""
        if not any(base in values for base, _ in self.items):
            return self
        powers: dict[str, Fraction] = {}
        for base, power in self.items:
            for symbol, times in values[base].items if base in values else ((base, 1),):
                powers[symbol] = powers.get(symbol, Fraction(0)) + times * power
        return Monomial.from_powers(powers)

    def at(self, **values: float) -> float:
        """The number at values of the symbols; raises ``KeyError`` for a missing one."""
        logs = (
            float(power) * math.log(float(base) if base.isdigit() else values[base])
            for base, power in self.items
        )
        return math.exp(math.fsum(logs))

    def __str__(self) -> str:
        """One outer root around whole powers, such as ``(N**4*M/27)**(1/16)``."""
        if not self.items:
            return "1"
        inner, outer = self._one_root()
        above, below = _product(inner, 1), _product(inner, -1)
        if outer == -1:
            above, below, outer = below, above, Fraction(1)
        base = "*".join(above or ["1"])
        if below:
            divisor = "*".join(below)
            base += f"/({divisor})" if len(below) > 1 else f"/{divisor}"
        if outer == 1:
            return base
        if outer.denominator == 1 and not self.symbols:
            return str(Fraction(base) ** outer.numerator)
        base = f"({base})" if "*" in base or "/" in base else base
        whole = outer.denominator == 1 and outer > 0
        return f"{base}**{outer if whole else f'({outer})'}"

    def apart(self, *symbols: str) -> str:
        """The text with the powers of some symbols as factors of their own."""
        rest = Monomial(tuple(item for item in self.items if item[0] not in symbols))
        factors = [Monomial.of(s) ** self.exponent(s) for s in symbols if self.exponent(s)]
        first, *others = [rest, *factors] if rest.items or not factors else factors
        inverses = {factor: str(factor**-1) for factor in others}
        ends = (f"/{i}" if i.isidentifier() else f"*{f}" for f, i in inverses.items())
        return str(first) + "".join(ends)

    def _one_root(self) -> tuple[dict[str, int], Fraction]:
        """Whole powers and the root around them, negative where every symbol is below the line."""
        powers = dict(self.items)
        numerator = gcd(*(p.numerator for p in powers.values()))
        outer = Fraction(numerator, lcm(*(p.denominator for p in powers.values())))
        below = all(powers[base] < 0 for base in self.symbols or powers)
        outer = -outer if below else outer
        return {base: int(power / outer) for base, power in powers.items()}, outer


ONE = Monomial()


def _product(powers: Mapping[str, int], sign: int) -> list[str]:
    """The factors above (``sign`` 1) or below the line, the number first."""
    kept = {base: abs(power) for base, power in powers.items() if power * sign > 0}
    number = math.prod(int(base) ** power for base, power in kept.items() if base.isdigit())
    symbols = sorted((b for b in kept if not b.isdigit()), key=lambda b: (_ORDER.get(b, 3), b))
    factors = [base if kept[base] == 1 else f"{base}**{kept[base]}" for base in symbols]
    return [str(number), *factors] if number != 1 else factors


_FUNCTIONS = {"sqrt": lambda size: size ** Fraction(1, 2), "abs": lambda size: size}
_SYMBOLS = {symbol: Monomial.of(symbol) for symbol in INDEXED.symbols}


@cache
def parse(text: str) -> Monomial:
    """The monomial that a depth expression writes; raises ``ValueError`` where it is none."""
    return read(DEPTH.parse(text).root)


def read(root: Node, names: Mapping[str, Monomial] = _SYMBOLS) -> Monomial:
    """The monomial of a parsed expression; raises ``ValueError`` where it is none, as of a sum."""
    try:
        size: Monomial = fold(root, Algebra(names, _FUNCTIONS, number=Monomial.number, power=pow))
    except (TypeError, KeyError):
        raise ValueError("a sum, a difference or a function is no monomial") from None
    return size


@dataclass(frozen=True)
class Solution:
    """The values of the unknowns that the conditions determine; ``free`` are the others."""

    values: dict[str, Monomial]
    free: tuple[str, ...]


def solve(conditions: Iterable[Monomial], unknowns: Sequence[str]) -> Solution | None:
    """Solve ``condition = 1`` for positive unknowns; None where the conditions contradict.

    In logarithms the system is linear: Gauss–Jordan elimination over the rationals decides
    existence and uniqueness exactly.
    """
    # Not as polynomials: a computer algebra system looks for all roots of 2*N*beta**4/alpha**4 = 1
    # and may not return. In logarithms there is one solution or none, in microseconds.
    rows = [dict(condition.items) for condition in conditions]
    pivots: dict[str, dict[str, Fraction]] = {}
    for row in rows:
        for unknown, pivot in pivots.items():
            _eliminate(row, unknown, pivot)
        left = [u for u in unknowns if row.get(u)]
        if not left:
            if any(row.values()):
                return None
            continue
        unknown = left[0]
        scale = row[unknown]
        row = {base: power / scale for base, power in row.items() if power}
        for other in pivots.values():
            _eliminate(other, unknown, row)
        pivots[unknown] = row
    values = {
        unknown: Monomial.from_powers({b: -p for b, p in row.items() if b != unknown})
        for unknown, row in pivots.items()
        if not any(row.get(u) for u in unknowns if u != unknown)
    }
    return Solution(values, tuple(u for u in unknowns if u not in values))


def _eliminate(row: dict[str, Fraction], unknown: str, pivot: Mapping[str, Fraction]) -> None:
    if times := row.get(unknown):
        for base, power in pivot.items():
            row[base] = row.get(base, Fraction(0)) - times * power
