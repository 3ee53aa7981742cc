"""The same expectations by explicit sums: every index takes every value, entry by entry.

No cumulant, no contraction: the entries that coincide are counted and their moments multiplied,
in exact rational arithmetic. It is slow and obvious, and it checks the contraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from deepnet_theory.symbolic.moments.exact import exact
from deepnet_theory.symbolic.moments.polynomial import Index, Polynomial, Tensor, Term

Entries = Mapping[tuple[int, ...], Any]  # integers or fractions


def enumerate_expectation(
    polynomial: Polynomial,
    point: Mapping[Any, Any],
    values: Mapping[Tensor, Entries] | None = None,
    at: Mapping[str, int] | None = None,
) -> Any:
    """The expectation where the ranges and symbols take the numbers of ``point``.

    ``values`` are the entries of fixed tensors (or of random ones that are held), ``at`` the
    values of the free indices, both counted from 1.
    """
    total: Any = Fraction(0)
    for term in polynomial.terms:
        coefficient = exact(term.coefficient, point)
        if coefficient != 0:
            total = total + coefficient * _sum(term, point, values or {}, at or {})
    return total


def _sum(
    term: Term,
    point: Mapping[Any, Any],
    values: Mapping[Tensor, Entries],
    at: Mapping[str, int],
) -> Any:
    free = [(index, at[index.name]) for index in term.free]
    bound = sorted(term.bound, key=lambda i: (i.name, i.copy))
    position = {index: p for p, index in enumerate([*bound, *(index for index, _ in free)])}
    tail = tuple(value for _, value in free)
    deltas = [(position[a], position[b]) for a, b in term.deltas]
    held, drawn = [], []
    random: list[Tensor] = []
    for tensor, indices in term.factors:
        places = tuple(position[i] for i in indices)
        if tensor in values:
            held.append((values[tensor], places))
        elif tensor.law is None:
            raise ValueError(f"the fixed tensor {tensor.name} was given no values")
        else:
            if tensor not in random:
                random.append(tensor)
            drawn.append((random.index(tensor), places))
    # Assignments with the same coincidences share their moments: those are multiplied once.
    weights: dict[tuple[tuple[int, int], ...], Any] = {}
    sums: dict[tuple[tuple[int, int], ...], Any] = {}
    for assignment in product(*(range(1, _size(i, point) + 1) for i in bound)):
        place = assignment + tail
        if deltas and any(place[a] != place[b] for a, b in deltas):
            continue
        occurrences: dict[tuple[int, ...], int] = {}
        for number, places in drawn:
            entry = (number, *[place[p] for p in places])
            occurrences[entry] = occurrences.get(entry, 0) + 1
        pattern = tuple(sorted([(entry[0], order) for entry, order in occurrences.items()]))
        if pattern not in weights:
            weights[pattern] = _moments(pattern, random, point)
            sums[pattern] = 0
        if weights[pattern]:
            size: Any = 1
            for entries, places in held:
                size = size * entries[tuple([place[p] for p in places])]
            sums[pattern] = sums[pattern] + size
    total: Any = Fraction(0)
    for pattern, weight in weights.items():
        total = total + weight * sums[pattern]
    return total


def _moments(
    pattern: tuple[tuple[int, int], ...], random: list[Tensor], point: Mapping[Any, Any]
) -> Any:
    """The product of the moments of distinct entries, each (tensor, how often it occurs)."""
    weight: Any = Fraction(1)
    for number, order in pattern:
        law = random[number].law
        assert law is not None
        weight = weight * exact(law.moment(order), point)
        if weight == 0:
            break
    return weight


def _size(index: Index, point: Mapping[Any, Any]) -> int:
    return int(exact(index.size, point))
