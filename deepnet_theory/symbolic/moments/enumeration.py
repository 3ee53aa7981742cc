"""The same expectations by explicit sums: every index takes every value, entry by entry.

No cumulant, no contraction: the entries that coincide are counted and their moments multiplied,
in exact rational arithmetic. It is slow and obvious, and it checks the contraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

from deepnet_theory.symbolic.moments.exact import exact
from deepnet_theory.symbolic.moments.polynomial import Index, Polynomial, Tensor, Term

Entries = Mapping[tuple[int, ...], Fraction]


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
    for tensor, indices in term.factors:
        places = tuple(position[i] for i in indices)
        if tensor in values:
            held.append((values[tensor], places))
        elif tensor.law is None:
            raise ValueError(f"the fixed tensor {tensor.name} was given no values")
        else:
            drawn.append((tensor, places))
    orders = range(1, len(drawn) + 1)
    moments = {
        tensor: {order: _Lazy(tensor, order, point) for order in orders}
        for tensor in {tensor for tensor, _ in drawn}
    }
    total: Any = Fraction(0)
    for assignment in product(*(range(1, _size(i, point) + 1) for i in bound)):
        place = assignment + tail
        if any(place[a] != place[b] for a, b in deltas):
            continue
        occurrences: dict[tuple[str, tuple[int, ...]], tuple[Tensor, int]] = {}
        for tensor, places in drawn:
            entry = (tensor.name, tuple([place[p] for p in places]))
            counted = occurrences.get(entry)
            occurrences[entry] = (tensor, 1) if counted is None else (tensor, counted[1] + 1)
        weight: Any = Fraction(1)
        for tensor, order in occurrences.values():
            moment = moments[tensor][order].value
            if not moment:
                break
            weight = weight * moment
        else:
            for entries, places in held:
                weight = weight * entries[tuple([place[p] for p in places])]
            total = total + weight
    return total


def _size(index: Index, point: Mapping[Any, Any]) -> int:
    return int(exact(index.size, point))


class _Lazy:
    """A moment at the point, computed when first asked for: of some laws only two are known."""

    def __init__(self, tensor: Tensor, order: int, point: Mapping[Any, Any]) -> None:
        self._of = (tensor, order, point)

    @cached_property
    def value(self) -> Any:
        tensor, order, point = self._of
        assert tensor.law is not None
        return exact(tensor.law.moment(order), point)
