"""The same expectations by explicit sums: every index takes every value, entry by entry.

No cumulant, no contraction: the entries that coincide are counted and their moments multiplied,
in exact rational arithmetic. It is slow and obvious, and it checks the contraction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from operator import itemgetter

from deepnet_theory.symbolic.expectation.exact import Number, Point, exact
from deepnet_theory.symbolic.expectation.polynomial import Index, Polynomial, Tensor, Term

Entries = Mapping[tuple[int, ...], Fraction | int]


def enumerate_expectation(
    polynomial: Polynomial,
    point: Point,
    values: Mapping[Tensor, Entries] | None = None,
    at: Mapping[str, int] | None = None,
) -> Number:
    """The expectation where the ranges and symbols take the numbers of ``point``.

    ``values`` are the entries of fixed tensors (or of random ones that are held), ``at`` the
    values of the free indices, both counted from 1.
    """
    total: Number = Fraction(0)
    for term in polynomial.terms:
        coefficient = exact(term.coefficient, point)
        if coefficient != 0:
            total = total + coefficient * _sum(term, point, values or {}, at or {})
    return total


def _sum(
    term: Term,
    point: Point,
    values: Mapping[Tensor, Entries],
    at: Mapping[str, int],
) -> Number:
    free = [(index, at[index.name]) for index in term.free]
    bound = sorted(term.bound, key=lambda i: (i.name, i.copy))
    position = {index: p for p, index in enumerate([*bound, *(index for index, _ in free)])}
    tail = tuple(value for _, value in free)
    deltas = [(position[a], position[b]) for a, b in term.deltas]
    held, drawn = [], []
    random: list[Tensor] = []
    for tensor, indices in term.factors:
        entry_of = _entry_at([position[i] for i in indices])
        if tensor in values:
            held.append((values[tensor], entry_of))
        elif tensor.law is None:
            raise ValueError(f"the fixed tensor {tensor.name} was given no values")
        else:
            if tensor not in random:
                random.append(tensor)
            drawn.append((random.index(tensor), entry_of))
    moments = _Moments(random, point)
    # Assignments with the same coincidences share their moments: those are multiplied once.
    weights: dict[tuple[tuple[int, int], ...], Number] = {}
    sums: dict[tuple[tuple[int, int], ...], Number] = {}
    for assignment in product(*(range(1, _size(i, point) + 1) for i in bound)):
        place = assignment + tail
        if deltas and any(place[a] != place[b] for a, b in deltas):
            continue
        occurrences = Counter([(number, entry_of(place)) for number, entry_of in drawn])
        pattern = tuple(sorted([(entry[0], order) for entry, order in occurrences.items()]))
        if pattern not in weights:
            weights[pattern] = moments.product(pattern)
            sums[pattern] = 0
        if weights[pattern]:
            size: Number = 1
            for entries, entry_of in held:
                size = size * entries[entry_of(place)]
            sums[pattern] = sums[pattern] + size
    total: Number = Fraction(0)
    for pattern, weight in weights.items():
        total = total + weight * sums[pattern]
    return total


def _entry_at(positions: list[int]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Which entry of a tensor an assignment of all indices means."""
    if len(positions) > 1:
        return itemgetter(*positions)
    start = positions[0] if positions else 0
    return itemgetter(slice(start, start + len(positions)))


@dataclass(frozen=True)
class _Moments:
    """The moments of the random tensors' entries, as numbers at a point."""

    tensors: list[Tensor]
    point: Point
    known: dict[tuple[int, int], Number] = field(default_factory=dict)

    def product(self, pattern: tuple[tuple[int, int], ...]) -> Number:
        """The product over distinct entries, each (number of its tensor, how often it occurs)."""
        weight: Number = Fraction(1)
        for entry in pattern:
            if entry not in self.known:
                number, order = entry
                law = self.tensors[number].law
                assert law is not None
                self.known[entry] = exact(law.moment(order), self.point)
            weight = weight * self.known[entry]
            if weight == 0:
                break
        return weight


def _size(index: Index, point: Point) -> int:
    return int(exact(index.size, point))
