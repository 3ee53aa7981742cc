"""Polynomials in indexed entries, with indices summed over symbolic ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

import sympy as sp

from deepnet_theory.spec.errors import InputError
from deepnet_theory.symbolic.expectation.law import Law

_fresh = count(1)


@dataclass(frozen=True)
class Index:
    """An index that runs from 1 to ``size``; ``copy`` tells renamed dummies apart."""

    name: str
    size: sp.Expr
    copy: int = 0

    def renamed(self) -> Index:
        """A new dummy of the same range."""
        return replace(self, copy=next(_fresh))


class Factor(NamedTuple):
    """One entry of a tensor."""

    tensor: Tensor
    indices: tuple[Index, ...]


@dataclass(frozen=True)
class Tensor:
    """A family of entries on axes of the given sizes.

    Entries with a ``law`` are independent of each other and of those of every other tensor;
    without one the tensor is fixed: arbitrary numbers that do not depend on the random ones.
    """

    name: str
    axes: tuple[sp.Expr, ...]
    law: Law | None = None

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Polynomial:
        """The entry at ``indices``; raises :class:`InputError` where a range does not fit."""
        indices = indices if isinstance(indices, tuple) else (indices,)
        if tuple(i.size for i in indices) != self.axes:
            ranges = ", ".join(f"{i.name} = 1..{i.size}" for i in indices)
            raise InputError(
                f"{self.name} has axes of sizes ({', '.join(map(str, self.axes))}) "
                f"and cannot be indexed with {ranges}"
            )
        return Polynomial((Term(sp.S.One, (Factor(self, indices),)),))


@dataclass(frozen=True)
class Term:
    """``coefficient`` times factors and Kronecker deltas, summed over ``bound``."""

    coefficient: sp.Expr
    factors: tuple[Factor, ...] = ()
    bound: frozenset[Index] = frozenset()
    deltas: tuple[tuple[Index, Index], ...] = ()

    def rename(self, names: Mapping[Index, Index]) -> Term:
        """The term with indices replaced."""
        return Term(
            self.coefficient,
            tuple(Factor(t, tuple(names.get(i, i) for i in ix)) for t, ix in self.factors),
            frozenset(names.get(i, i) for i in self.bound),
            tuple((names.get(a, a), names.get(b, b)) for a, b in self.deltas),
        )

    @cached_property
    def indices(self) -> frozenset[Index]:
        """Every index, summed or free."""
        used = {i for factor in self.factors for i in factor.indices}
        return frozenset(used | {i for pair in self.deltas for i in pair} | self.bound)

    @cached_property
    def free(self) -> frozenset[Index]:
        """The indices that are not summed."""
        return self.indices - self.bound

    def __str__(self) -> str:
        names = _display_names(self)
        parts = [f"delta_{names[a]}{names[b]}" for a, b in self.deltas]
        parts += [f"{t.name}_{''.join(names[i] for i in ix)}" for t, ix in self.factors]
        if self.coefficient != 1 or not parts:
            parts.insert(0, str(self.coefficient))
        text = "*".join(parts)
        if self.bound:
            ranges = (f"{names[i]}=1..{i.size}" for i in _in_order(self) if i in self.bound)
            return f"Sum({text}, {', '.join(ranges)})"
        return text

    def latex(self) -> str:
        """The term as LaTeX."""
        names = _display_names(self)
        sums = "".join(
            rf"\sum_{{{names[i]}=1}}^{{{sp.latex(i.size)}}}"
            for i in _in_order(self)
            if i in self.bound
        )
        parts = [rf"\delta_{{{names[a]}{names[b]}}}" for a, b in self.deltas]
        parts += [f"{t.name}_{{{''.join(names[i] for i in ix)}}}" for t, ix in self.factors]
        if self.coefficient != 1 or not parts:
            parts.insert(0, sp.latex(self.coefficient))
        return sums + " " + " ".join(parts)


def _in_order(term: Term) -> list[Index]:
    seen: dict[Index, None] = {}
    for pair in term.deltas:
        seen.update(dict.fromkeys(pair))
    for factor in term.factors:
        seen.update(dict.fromkeys(factor.indices))
    seen.update(dict.fromkeys(sorted(term.bound, key=lambda i: (i.name, i.copy))))
    return list(seen)


def _display_names(term: Term) -> dict[Index, str]:
    taken: dict[str, int] = {}
    names = {}
    for index in sorted(_in_order(term), key=lambda i: i in term.bound):  # free ones keep theirs
        primes = taken.get(index.name, 0)
        taken[index.name] = primes + 1
        names[index] = index.name + "'" * primes
    return names


@dataclass(frozen=True)
class Polynomial:
    """A sum of terms; products rename the dummies of one side, so that they never collide."""

    terms: tuple[Term, ...]

    def __add__(self, other: Polynomial) -> Polynomial:
        return Polynomial(self.terms + other.terms)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + (-1) * other

    def __mul__(self, other: Polynomial | sp.Expr) -> Polynomial:
        if not isinstance(other, Polynomial):
            return Polynomial(
                tuple(replace(t, coefficient=t.coefficient * other) for t in self.terms)
            )
        terms = []
        for a in self.terms:
            for b in other.terms:
                b = b.rename({i: i.renamed() for i in b.bound})
                terms.append(
                    Term(
                        a.coefficient * b.coefficient,
                        a.factors + b.factors,
                        a.bound | b.bound,
                        a.deltas + b.deltas,
                    )
                )
        return Polynomial(tuple(terms))

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Polynomial:
        result = constant(1)
        for _ in range(exponent):
            result = result * self
        return result

    def sum(self, *indices: Index) -> Polynomial:
        """The sum over ``indices``, each from 1 to its size."""
        terms = []
        for term in self.terms:
            names = {i: i.renamed() for i in indices}
            renamed = term.rename(names)
            terms.append(replace(renamed, bound=renamed.bound | frozenset(names.values())))
        return Polynomial(tuple(terms))

    def derivative(self, tensor: Tensor, *indices: Index) -> Polynomial:
        """The derivative in the entry of ``tensor`` at ``indices`` (product rule, deltas)."""
        terms = []
        for term in self.terms:
            for position, (t, at) in enumerate(term.factors):
                if t == tensor:
                    rest = term.factors[:position] + term.factors[position + 1 :]
                    deltas = term.deltas + tuple(zip(at, indices, strict=True))
                    terms.append(replace(term, factors=rest, deltas=deltas))
        return Polynomial(tuple(terms)).contracted()

    def along(self, tensor: Tensor, direction: Tensor) -> Polynomial:
        """The directional derivative: each entry of ``tensor`` replaced in turn."""
        terms = []
        for term in self.terms:
            for position, (t, at) in enumerate(term.factors):
                if t == tensor:
                    factors = list(term.factors)
                    factors[position] = Factor(direction, at)
                    terms.append(replace(term, factors=tuple(factors)))
        return Polynomial(tuple(terms))

    def contracted(self) -> Polynomial:
        """Every delta that holds a summed index is carried out."""
        return Polynomial(tuple(_contract(term) for term in self.terms))

    def replaced(self, tensor: Tensor, by: Tensor) -> Polynomial:
        """The same polynomial with another tensor (another law, say) in place of one."""
        terms = tuple(
            replace(t, factors=tuple(f._replace(tensor=by) if f[0] == tensor else f
                                     for f in t.factors))
            for t in self.terms
        )  # fmt: skip
        return Polynomial(terms)

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that occur."""
        return tuple(dict.fromkeys(f.tensor for term in self.terms for f in term.factors))

    @cached_property
    def symbols(self) -> set[sp.Symbol]:
        """The symbols of coefficients and ranges."""
        found: set[sp.Symbol] = set()
        for term in self.terms:
            found |= sp.sympify(term.coefficient).free_symbols
            for index in term.indices:
                found |= sp.sympify(index.size).free_symbols
        return found

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms)) or "0"

    def latex(self) -> str:
        """The polynomial as LaTeX."""
        return " + ".join(term.latex() for term in self.terms) or "0"


def _contract(term: Term) -> Term:
    while True:
        for position, (a, b) in enumerate(term.deltas):
            bound, kept = (a, b) if a in term.bound else (b, a)
            if bound in term.bound or a == b:
                deltas = term.deltas[:position] + term.deltas[position + 1 :]
                if a != b:
                    _same_range((a, b))
                    remaining = replace(term, deltas=deltas, bound=term.bound - {bound})
                    term = remaining.rename({bound: kept})
                else:
                    term = replace(term, deltas=deltas)
                break
        else:
            return term


def _same_range(indices: Iterable[Index]) -> None:
    sizes = {i.size for i in indices}
    if len(sizes) > 1:
        raise InputError(f"indices of different ranges were identified: {sizes}")


def constant(value: sp.Expr) -> Polynomial:
    """The polynomial without entries."""
    return Polynomial((Term(sp.sympify(value)),))


def delta(a: Index, b: Index) -> Polynomial:
    """The Kronecker delta of two indices."""
    _same_range((a, b))
    return Polynomial((Term(sp.S.One, deltas=((a, b),)),))
