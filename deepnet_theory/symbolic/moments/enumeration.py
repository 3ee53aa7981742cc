"""The same expectations by explicit sums: every index takes every value, entry by entry.

No cumulant, no contraction: the entries that coincide are counted and their moments multiplied,
in exact rational arithmetic. It is slow and obvious, and it checks the contraction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp

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
    total = sp.S.Zero
    moments: dict[tuple[Tensor, int], Fraction] = {}
    for term in polynomial.terms:
        coefficient = sp.sympify(term.coefficient).subs(point)
        if coefficient != 0:
            total += coefficient * sp.Rational(_sum(term, point, values or {}, at or {}, moments))
    return total


def _sum(
    term: Term,
    point: Mapping[Any, Any],
    values: Mapping[Tensor, Entries],
    at: Mapping[str, int],
    moments: dict[tuple[Tensor, int], Fraction],
) -> Fraction:
    bound = sorted(term.bound, key=lambda i: (i.name, i.copy))
    place: dict[Index, int] = {index: at[index.name] for index in term.free}
    total = Fraction(0)
    for assignment in product(*(range(1, _size(i, point) + 1) for i in bound)):
        place.update(zip(bound, assignment, strict=True))
        if any(place[a] != place[b] for a, b in term.deltas):
            continue
        weight = Fraction(1)
        occurrences: Counter[tuple[Tensor, tuple[int, ...]]] = Counter()
        for tensor, indices in term.factors:
            entry = tuple(place[i] for i in indices)
            if tensor in values:
                weight *= values[tensor][entry]
            else:
                occurrences[tensor, entry] += 1
        for (tensor, _), order in occurrences.items():
            if not weight:
                break
            weight *= _moment(tensor, order, point, moments)
        total += weight
    return total


def _size(index: Index, point: Mapping[Any, Any]) -> int:
    return int(sp.sympify(index.size).subs(point))


def _moment(
    tensor: Tensor,
    order: int,
    point: Mapping[Any, Any],
    moments: dict[tuple[Tensor, int], Fraction],
) -> Fraction:
    key = (tensor, order)
    if key not in moments:
        if tensor.law is None:
            raise ValueError(f"the fixed tensor {tensor.name} was given no values")
        number = sp.Rational(sp.sympify(tensor.law.moment(order)).subs(point))
        moments[key] = Fraction(int(number.p), int(number.q))
    return moments[key]
