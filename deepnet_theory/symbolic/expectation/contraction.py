r"""Expectations by Kronecker contraction.

The expectation of a product of entries is a sum over the set partitions of the factors of each
random tensor; a block of r factors gives the cumulant κ_r of the law times Kronecker deltas that
identify their indices (entries at different places are independent). For a Gaussian only pairs
remain: Isserlis' (Wick's) theorem. Coincidences of indices need no case distinction, because
the cumulant expansion already holds for equal and for different indices alike. What is left is a
network of deltas: each connected class of summed indices contributes the length of its range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import TypeVar

import sympy as sp

from deepnet_theory.spec.errors import InputError
from deepnet_theory.symbolic.expectation.polynomial import Factor, Index, Polynomial, Tensor, Term

T = TypeVar("T")


@dataclass(frozen=True)
class Known:
    """A name for an invariant of fixed tensors: ``symbol**power`` is ``polynomial``.

    ``Known(norm_x, (x[j] * x[j]).sum(j), 2)`` says that norm_x² = Σ_j x_j².
    """

    symbol: sp.Symbol
    polynomial: Polynomial
    power: int = 1

    @classmethod
    def norm(cls, symbol: sp.Symbol, tensor: Tensor) -> Known:
        """A name for the norm of all entries of a tensor."""
        indices = tuple(Index(f"i{axis}", size) for axis, size in enumerate(tensor.axes))
        return cls(symbol, (tensor[indices] * tensor[indices]).sum(*indices), 2)

    @property
    def key(self) -> object:
        """The canonical form of the invariant, which must be one connected term."""
        (term,) = self.polynomial.terms
        return _canonical(term.factors, term.bound)


def expect(polynomial: Polynomial, known: Sequence[Known] = ()) -> sp.Expr:
    """The expectation, as a SymPy expression in the ranges, variances and ``known`` symbols.

    Raises :class:`InputError` where an invariant of fixed tensors has no name in ``known``.
    Source: Isserlis, Biometrika 12 (1918); cumulants for laws that are not Gaussian.
    """
    names = {item.key: item.symbol**item.power for item in known}
    total = sp.S.Zero
    for term in polynomial.terms:
        total += sp.sympify(term.coefficient) * _expect_product(term, names)
    return total


def _expect_product(term: Term, names: dict[object, sp.Expr]) -> sp.Expr:
    groups: dict[Tensor, list[Factor]] = {}
    fixed = []
    for factor in term.factors:
        if factor.tensor.law is None:
            fixed.append(factor)
        else:
            groups.setdefault(factor.tensor, []).append(factor)
    choices = [list(_blocks(tensor, factors)) for tensor, factors in groups.items()]
    total = sp.S.Zero
    for choice in product(*choices):
        weight = sp.S.One
        pairs = list(term.deltas)
        for value, identified in choice:
            weight *= value
            pairs += identified
        total += weight * _network(term, fixed, pairs, names)
    return total


def _blocks(
    tensor: Tensor, factors: list[Factor]
) -> Iterator[tuple[sp.Expr, list[tuple[Index, Index]]]]:
    """The set partitions whose cumulants do not vanish, each with its weight and deltas."""
    assert tensor.law is not None
    cumulants = [tensor.law.cumulant(r) for r in range(1, len(factors) + 1)]
    sizes = {r for r, value in enumerate(cumulants, 1) if value != 0}
    for blocks in partitions_into(factors, sizes):
        weight = sp.S.One
        pairs: list[tuple[Index, Index]] = []
        for block in blocks:
            weight *= cumulants[len(block) - 1]
            for factor in block[1:]:
                pairs += zip(block[0].indices, factor.indices, strict=True)
        yield weight, pairs


def partitions_into(items: list[T], sizes: set[int]) -> Iterator[list[list[T]]]:
    """The set partitions of ``items`` into blocks whose sizes are all in ``sizes``."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in sorted(sizes):
        if size > len(items):
            break
        for chosen in _subsets(len(rest), size - 1):
            block = [first, *(rest[i] for i in chosen)]
            others = [x for i, x in enumerate(rest) if i not in chosen]
            for blocks in partitions_into(others, sizes):
                yield [block, *blocks]


def _subsets(total: int, size: int) -> Iterator[tuple[int, ...]]:
    return combinations(range(total), size)


def _network(
    term: Term, fixed: list[Factor], pairs: list[tuple[Index, Index]], names: dict[object, sp.Expr]
) -> sp.Expr:
    parent: dict[Index, Index] = {i: i for i in term.indices}

    def root(index: Index) -> Index:
        while parent[index] != index:
            index = parent[index]
        return index

    result = sp.S.One
    for a, b in pairs:
        a, b = root(a), root(b)
        if a == b:
            continue
        if a in term.bound:
            parent[a] = b
        elif b in term.bound:
            parent[b] = a
        else:  # two free indices: their delta stays in the answer
            result *= sp.KroneckerDelta(sp.Symbol(a.name), sp.Symbol(b.name))
            parent[b] = a
    classes = {root(i) for i in term.indices}
    network = [Factor(f.tensor, tuple(root(i) for i in f.indices)) for f in fixed]
    touched = {i for f in network for i in f.indices}
    for index in classes:
        if index in term.bound and index not in touched:
            result *= index.size
    bound = frozenset(i for i in classes if i in term.bound)
    for component in _components(network, bound):
        result *= _invariant(component, bound, names)
    return result


def _components(network: list[Factor], bound: frozenset[Index]) -> list[list[Factor]]:
    components: list[tuple[set[Index], list[Factor]]] = []
    for factor in network:
        own = set(factor.indices) & bound
        touching = [c for c in components if c[0] & own]
        merged = (own.union(*(c[0] for c in touching)), [factor])
        for c in touching:
            merged[1].extend(c[1])
            components.remove(c)
        components.append(merged)
    return [factors for _, factors in components]


def _invariant(
    component: list[Factor], bound: frozenset[Index], names: dict[object, sp.Expr]
) -> sp.Expr:
    key = _canonical(tuple(component), bound)
    if key not in names:
        indices = frozenset(i for f in component for i in f.indices) & bound
        raise InputError(
            f"the answer holds {Term(sp.S.One, tuple(component), indices)} of fixed tensors, "
            "which has no name; give one with Known"
        )
    return names[key]


def _canonical(factors: tuple[Factor, ...], bound: frozenset[Index]) -> object:
    """The least form of a network over the order of its factors and the names of its dummies."""

    def form(order: tuple[Factor, ...]) -> tuple[tuple[str, ...], ...]:
        numbers: dict[Index, str] = {}
        rows = []
        for tensor, indices in order:
            row = [tensor.name]
            for index in indices:
                if index in bound:
                    row.append(numbers.setdefault(index, f"#{len(numbers)}"))
                else:
                    row.append(index.name)
            rows.append(tuple(row))
        return tuple(rows)

    return min(form(order) for order in permutations(factors))
