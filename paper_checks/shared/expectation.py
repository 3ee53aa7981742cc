r"""Exact expectations of polynomials in independent indexed entries, over symbolic ranges.

By contraction: the expectation of a product of entries is a sum over the set partitions of the
factors of each random tensor; a block of r factors gives the cumulant κ_r of the law times
Kronecker deltas that identify their indices. For a Gaussian only pairs remain: Isserlis' (Wick's)
theorem. Coincidences of indices need no case distinction, because the cumulant expansion already
holds for equal and for different indices alike. What is left is a network of deltas: each
connected class of summed indices contributes the length of its range.

By enumeration, which checks it: every index takes every value, the entries that coincide are
counted and their moments multiplied. No cumulant, no contraction: slow and obvious.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations, count, permutations, product
from typing import Any, NamedTuple, TypeAlias, TypeVar

import sympy as sp
from sympy.printing.printer import Printer

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.proof.notation import NamedQuantity as NamedQuantity
from deepnet_theory.proof.notation import norm_of as norm_of
from deepnet_theory.proof.step import Check, Relation, Section, Step

T = TypeVar("T")
Model: TypeAlias = Mapping[sp.Expr, sp.Expr]  # an exact value for each named quantity

# ---- indexed sums ---------------------------------------------------------------------------

_fresh = count(1)


class Law:
    """The law of one entry; entries of one tensor are independent and share it."""

    def moment(self, order: int) -> sp.Expr:
        """E xʳ for r = ``order`` ≥ 1."""
        raise NotImplementedError


@dataclass(frozen=True)
class Index:
    """An index that runs from 1 to ``size``; ``copy`` tells renamed dummies apart."""

    name: str
    size: sp.Expr
    copy: int = 0


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


class Factor(NamedTuple):
    """One entry of a tensor."""

    tensor: Tensor
    indices: tuple[Index, ...]


@dataclass(frozen=True)
class Term:
    """``coefficient`` times factors, summed over ``bound``."""

    coefficient: sp.Expr
    factors: tuple[Factor, ...] = ()
    bound: frozenset[Index] = frozenset()

    def renamed(self, indices: frozenset[Index]) -> Term:
        """The term with new dummies in place of ``indices``, which it sums over."""
        names = {i: replace(i, copy=next(_fresh)) for i in indices}
        factors = (Factor(t, tuple(names.get(i, i) for i in at)) for t, at in self.factors)
        bound = frozenset(names.get(i, i) for i in self.bound | indices)
        return Term(self.coefficient, tuple(factors), bound)

    @cached_property
    def indices(self) -> frozenset[Index]:
        """Every index, summed or free."""
        return frozenset(i for factor in self.factors for i in factor.indices) | self.bound

    @cached_property
    def free(self) -> frozenset[Index]:
        """The indices that are not summed."""
        return self.indices - self.bound

    def written(
        self, entry: str, total: Callable[[str, list[tuple[str, sp.Expr]]], str], join: str
    ) -> str:
        """The term as text: how an entry and a sum are written, and what joins the factors."""
        order = dict.fromkeys(i for _, at in self.factors for i in at)
        order.update(dict.fromkeys(sorted(self.bound, key=lambda i: (i.name, i.copy))))
        names: dict[Index, str] = {}
        for index in sorted(order, key=lambda i: i in self.bound):  # free ones keep theirs
            names[index] = index.name + "'" * sum(other.name == index.name for other in names)
        parts = [entry.format(t.name, "".join(names[i] for i in at)) for t, at in self.factors]
        if self.coefficient != 1 or not parts:
            parts.insert(0, (str if join == "*" else sp.latex)(self.coefficient))
        return total(join.join(parts), [(names[i], i.size) for i in order if i in self.bound])

    def __str__(self) -> str:
        return self.written("{}_{}", _summed, "*")


def _summed(text: str, ranges: list[tuple[str, sp.Expr]]) -> str:
    return f"Sum({text}, {', '.join(f'{i}=1..{n}' for i, n in ranges)})" if ranges else text


def _summed_latex(text: str, ranges: list[tuple[str, sp.Expr]]) -> str:
    return "".join(rf"\sum_{{{i}=1}}^{{{sp.latex(n)}}}" for i, n in ranges) + " " + text


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
            other = constant(other)
        products = ((a, b.renamed(b.bound)) for a in self.terms for b in other.terms)
        return Polynomial(
            tuple(
                Term(a.coefficient * b.coefficient, a.factors + b.factors, a.bound | b.bound)
                for a, b in products
            )
        )

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Polynomial:
        result = constant(1)
        for _ in range(exponent):
            result = result * self
        return result

    def sum(self, *indices: Index) -> Polynomial:
        """The sum over ``indices``, each from 1 to its size."""
        return Polynomial(tuple(term.renamed(frozenset(indices)) for term in self.terms))

    def along(self, tensor: Tensor, direction: Tensor) -> Polynomial:
        """The directional derivative: each entry of ``tensor`` replaced in turn."""
        terms = []
        for term in self.terms:
            for place, (t, at) in enumerate(term.factors):
                if t == tensor:
                    before, after = term.factors[:place], term.factors[place + 1 :]
                    terms.append(replace(term, factors=(*before, Factor(direction, at), *after)))
        return Polynomial(tuple(terms))

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that occur."""
        return tuple(dict.fromkeys(f.tensor for term in self.terms for f in term.factors))

    @cached_property
    def symbols(self) -> set[sp.Symbol]:
        """The symbols of coefficients, ranges and variances; entries are not symbols."""
        sizes = {i.size for term in self.terms for i in term.indices}
        variances = {getattr(t.law, "variance", 0) for t in self.tensors}
        every = (*sizes, *variances, *(term.coefficient for term in self.terms))
        return set().union(*(sp.sympify(e).free_symbols for e in every))

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms)) or "0"

    def latex(self) -> str:
        """The polynomial as LaTeX."""
        terms = (t.written("{}_{{{}}}", _summed_latex, " ") for t in self.terms)
        return " + ".join(terms) or "0"


def constant(value: sp.Expr) -> Polynomial:
    """The polynomial without entries."""
    return Polynomial((Term(sp.sympify(value)),))


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


class Labelled(sp.AtomicExpr):  # type: ignore[misc]
    """An atom of SymPy that is shown as its ``label``, in LaTeX as ``latex``."""

    is_commutative = True
    shown, shown_in_latex = "{}", "{{{}}}"  # braces, so that a power of a square stays valid
    label: str
    latex: str

    def _sympystr(self, printer: Printer) -> str:
        return self.shown.format(self.label)

    def _latex(self, printer: Printer) -> str:
        return self.shown_in_latex.format(self.latex)


class IndexSum(Labelled):
    """A polynomial in indexed entries as one SymPy atom, shown as its sums (or ``label``)."""

    polynomial: Polynomial
    known: tuple[Known, ...]

    def __new__(
        cls, polynomial: Polynomial, label: str = "", latex: str = "", known: tuple[Known, ...] = ()
    ) -> IndexSum:
        node = super().__new__(cls)
        node.polynomial = polynomial
        node.label = label or str(polynomial)
        node.latex = latex or (label and sp.latex(sp.Symbol(label))) or polynomial.latex()
        node.known = known
        return node  # type: ignore[no-any-return]

    def _hashable_content(self) -> tuple[Hashable, ...]:
        return (self.label, str(self.polynomial), self.polynomial.tensors)

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        """The symbols of coefficients, ranges and variances."""
        return set(self.polynomial.symbols)


class Expectation(IndexSum):
    """The expectation of an indexed polynomial over its random tensors."""

    shown = "E[{}]"
    shown_in_latex = r"\mathbb{{E}}\left[{}\right]"


# ---- contraction ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Gaussian(Law):
    """Centred Gaussian of the given variance; only its second cumulant is not zero."""

    variance: sp.Expr

    def moment(self, order: int) -> sp.Expr:
        """(r−1)!! σʳ for even r, else 0."""
        return 0 if order % 2 else sp.factorial2(order - 1) * self.variance ** (order // 2)


@dataclass(frozen=True)
class Bernoulli(Law):
    """1 with probability p, else 0."""

    p: sp.Expr

    def moment(self, order: int) -> sp.Expr:
        """``p`` for every r ≥ 1."""
        return self.p


@dataclass(frozen=True)
class White(Law):
    """Mean zero, the given variance, and nothing else known."""

    variance: sp.Expr

    def moment(self, order: int) -> sp.Expr:
        """0 and the variance; raises :class:`InputError` for every higher order."""
        if order > 2:
            raise InputError(
                f"the moment of order {order} was asked for, and only the mean and the variance of "
                "the law are given; give a full law such as Gaussian"
            )
        return sp.S.Zero if order == 1 else self.variance


@cache
def cumulant(law: Law, order: int) -> sp.Expr:
    r"""The cumulant :math:`\kappa_r = \mu_r - \sum_{s<r} \binom{r-1}{s-1} \kappa_s \mu_{r-s}`."""
    rest = sum(
        math.comb(order - 1, s - 1) * cumulant(law, s) * law.moment(order - s)
        for s in range(1, order)
    )
    return sp.expand(law.moment(order) - rest)


def expect(polynomial: Polynomial, known: Sequence[Known] = ()) -> sp.Expr:
    """The expectation, as a SymPy expression in the ranges, variances and ``known`` symbols.

    Raises :class:`InputError` where an invariant of fixed tensors has no name in ``known``.
    Source: Isserlis, Biometrika 12 (1918); cumulants for laws that are not Gaussian.
    """
    names = {}
    for item in known:
        (term,) = item.polynomial.terms
        names[_canonical(term.factors, term.bound)] = item.symbol**item.power
    return sp.Add(*(sp.sympify(t.coefficient) * _of_term(t, names) for t in polynomial.terms))


def _of_term(term: Term, names: dict[object, sp.Expr]) -> sp.Expr:
    groups: dict[Tensor, list[Factor]] = {}
    for factor in term.factors:
        groups.setdefault(factor.tensor, []).append(factor)
    fixed = [factor for factor in term.factors if factor.tensor.law is None]
    drawn = [list(_blocks(t.law, factors)) for t, factors in groups.items() if t.law is not None]
    total = sp.S.Zero
    for choice in product(*drawn):
        weight = sp.Mul(*(value for value, _ in choice))
        pairs = [pair for _, identified in choice for pair in identified]
        total += weight * _network(term, fixed, pairs, names)
    return total


def _blocks(law: Law, factors: list[Factor]) -> Iterator[tuple[sp.Expr, list[tuple[Index, Index]]]]:
    """The set partitions whose cumulants do not vanish, each with its weight and deltas."""
    cumulants = {r: cumulant(law, r) for r in range(1, len(factors) + 1)}
    for blocks in partitions_into(factors, {r for r, value in cumulants.items() if value != 0}):
        pairs = [
            pair
            for first, *others in blocks
            for factor in others
            for pair in zip(first.indices, factor.indices, strict=True)
        ]
        yield sp.Mul(*(cumulants[len(block)] for block in blocks)), pairs


def partitions_into(items: list[T], sizes: set[int]) -> Iterator[list[list[T]]]:
    """The set partitions of ``items`` into blocks whose sizes are all in ``sizes``."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in sorted(size for size in sizes if size <= len(items)):
        for chosen in combinations(range(len(rest)), size - 1):
            others = [x for i, x in enumerate(rest) if i not in chosen]
            for blocks in partitions_into(others, sizes):
                yield [[first, *(rest[i] for i in chosen)], *blocks]


def _network(
    term: Term, fixed: list[Factor], pairs: list[tuple[Index, Index]], names: dict[object, sp.Expr]
) -> sp.Expr:
    parent: dict[Index, Index] = {}

    def root(index: Index) -> Index:
        while index in parent:
            index = parent[index]
        return index

    result = sp.S.One
    for a, b in pairs:
        a, b = root(a), root(b)
        if a == b:
            continue
        if a not in term.bound and b not in term.bound:  # the delta of two free ones stays
            result *= sp.KroneckerDelta(sp.Symbol(a.name), sp.Symbol(b.name))
        kept, lost = (b, a) if a in term.bound else (a, b)
        parent[lost] = kept
    network = [Factor(f.tensor, tuple(root(i) for i in f.indices)) for f in fixed]
    touched = {i for f in network for i in f.indices}
    bound = frozenset(root(i) for i in term.indices) & term.bound
    result *= sp.Mul(*(index.size for index in bound - touched))
    for component in _components(network, bound):
        key = _canonical(tuple(component), bound)
        if key not in names:
            indices = frozenset(i for f in component for i in f.indices) & bound
            raise InputError(
                f"the answer holds {Term(sp.S.One, tuple(component), indices)} of fixed tensors, "
                "which has no name; give one with Known"
            )
        result *= names[key]
    return result


def _components(network: list[Factor], bound: frozenset[Index]) -> list[list[Factor]]:
    """The factors that share summed indices, directly or through others."""
    components: list[tuple[set[Index], list[Factor]]] = []
    for factor in network:
        own, factors = set(factor.indices) & bound, [factor]
        for touching in [c for c in components if c[0] & own]:
            components.remove(touching)
            own |= touching[0]
            factors += touching[1]
        components.append((own, factors))
    return [factors for _, factors in components]


def _canonical(factors: tuple[Factor, ...], bound: frozenset[Index]) -> object:
    """The least form of a network over the order of its factors and the names of its dummies."""

    def form(order: tuple[Factor, ...]) -> tuple[tuple[str, ...], ...]:
        numbers: dict[Index, str] = {}
        return tuple(
            (
                tensor.name,
                *(
                    numbers.setdefault(i, f"#{len(numbers)}") if i in bound else i.name
                    for i in indices
                ),
            )
            for tensor, indices in order
        )

    return min(form(order) for order in permutations(factors))


# ---- enumeration ----------------------------------------------------------------------------

Point: TypeAlias = Mapping[sp.Expr, sp.Expr | int]  # symbols, and nodes, and their numbers
Entries: TypeAlias = Mapping[tuple[int, ...], Fraction | int]


def enumerate_expectation(
    polynomial: Polynomial,
    point: Point,
    values: Mapping[Tensor, Entries] | None = None,
    at: Mapping[str, int] | None = None,
) -> sp.Expr:
    """The expectation where the ranges and symbols take the numbers of ``point``.

    ``values`` are the entries of fixed tensors (or of random ones that are held), ``at`` the
    values of the free indices, both counted from 1.
    """
    sums = (
        sp.sympify(term.coefficient).xreplace(point) * _sum(term, point, values or {}, at or {})
        for term in polynomial.terms
    )
    return sp.Add(*sums)


def _length(index: Index, point: Point) -> range:
    return range(1, int(sp.sympify(index.size).xreplace(point)) + 1)


def _sum(
    term: Term, point: Point, values: Mapping[Tensor, Entries], at: Mapping[str, int]
) -> sp.Expr:
    bound = list(term.bound)
    position = {index: place for place, index in enumerate([*bound, *term.free])}
    held: list[tuple[Entries, list[int]]] = []
    drawn: list[tuple[str, list[int]]] = []
    laws: dict[str, Law] = {}
    for tensor, indices in term.factors:
        axes = [position[i] for i in indices]
        if tensor in values:
            held.append((values[tensor], axes))
        elif tensor.law is None:
            raise ValueError(f"the fixed tensor {tensor.name} was given no values")
        else:
            laws[tensor.name] = tensor.law
            drawn.append((tensor.name, axes))
    # assignments with the same coincidences share their moments: those are multiplied once
    sums: dict[tuple[tuple[str, int], ...], Fraction] = {}
    for summed in product(*(_length(index, point) for index in bound)):
        place = (*summed, *(at[index.name] for index in term.free))
        times = Counter((name, tuple(place[a] for a in axes)) for name, axes in drawn)
        pattern = tuple(sorted((name, order) for (name, _), order in times.items()))
        own = (entries[tuple(place[a] for a in axes)] for entries, axes in held)
        sums[pattern] = sums.get(pattern, Fraction(0)) + math.prod(own)
    total = sp.Add(
        *(
            sp.Mul(sp.Rational(size), *(laws[name].moment(order) for name, order in pattern))
            for pattern, size in sums.items()
        )
    )
    return total.xreplace(dict(point))


def random_entries(
    tensor: Tensor, point: Point, generator: random.Random
) -> dict[tuple[int, ...], int]:
    """Random integer entries for a tensor whose axes have the lengths of ``point``."""
    ranges = (_length(Index("", size), point) for size in tensor.axes)
    return {
        place: generator.choice((-1, 1)) * generator.randint(1, 19) for place in product(*ranges)
    }


def sizes_that_determine(polynomial: Polynomial) -> Iterator[dict[sp.Expr, sp.Integer]]:
    """Enough sizes to determine a polynomial in the ranges: degree + 1 for each range.

    The degree is at most the number of indices over the range. Two polynomials of that degree
    that agree at all these sizes are equal.
    """
    degrees: Counter[sp.Expr] = Counter()
    for term in polynomial.terms:
        degrees |= Counter(index.size for index in term.indices)
    for sizes in product(*(range(1, degree + 2) for degree in degrees.values())):
        yield dict(zip(degrees, map(sp.Integer, sizes), strict=True))


def is_enumerated(step: Step) -> bool:
    """``lhs = rhs`` where every :class:`Expectation` is replaced by its explicit sum.

    At all sizes that determine the polynomial; the other symbols, the fixed tensors and the
    free indices take random values.
    """
    generator = random.Random(step.name)
    nodes = sorted((step.lhs - step.rhs).atoms(IndexSum), key=str)
    sizes = {str(at): at for node in nodes for at in sizes_that_determine(node.polynomial)}
    widest = {size: sp.Integer(2) for at in sizes.values() for size in at}
    return bool(nodes) and all(
        _vanishes_at({**widest, **sizes[key]}, step, nodes, generator) for key in sorted(sizes)
    )


def _vanishes_at(
    point: dict[sp.Expr, sp.Expr | int], step: Step, nodes: list[IndexSum], generator: random.Random
) -> bool:
    # a symbol for a known invariant of fixed tensors follows from their entries
    invariants = {k.symbol: k for node in nodes for k in node.known}
    symbols = step.free_symbols.union(*(n.free_symbols for n in nodes))
    for symbol in sorted(symbols - set(invariants) - set(point), key=str):
        point[symbol] = sp.Rational(generator.randint(1, 30), generator.randint(7, 29))
    every = [node.polynomial for node in nodes] + [k.polynomial for k in invariants.values()]
    fixed = dict.fromkeys(t for p in every for t in p.tensors if t.law is None)
    values = {tensor: random_entries(tensor, point, generator) for tensor in fixed}
    free = {i for node in nodes for term in node.polynomial.terms for i in term.free}
    at = {
        index.name: generator.choice(_length(index, point))
        for index in sorted(free, key=lambda i: i.name)
    }
    for symbol, item in invariants.items():
        number = enumerate_expectation(item.polynomial, point, values, at)
        point[symbol] = number ** sp.Rational(1, item.power)
    for node in nodes:
        point[node] = enumerate_expectation(node.polynomial, point, values, at)
    point |= {sp.Symbol(name): value for name, value in at.items()}
    return bool(sp.expand((step.lhs - step.rhs).xreplace(point)) == 0)


ENUMERATED = Check("equal to explicit sums at sizes that determine it", is_enumerated)


def moment(
    section: Section,
    name: str,
    polynomial: Polynomial,
    shown: tuple[str, str],
    because: str,
    known: tuple[Known, ...] = (),
    value: sp.Expr | None = None,
    **more: Any,
) -> Step:
    """The step that gives an expectation its value, held against explicit sums.

    ``shown`` is what stands for the polynomial, as text and as LaTeX; ``value`` its contraction
    in another form.
    """
    found = expect(polynomial, known) if value is None else value
    more.setdefault("checks", (ENUMERATED,))
    return section.equal(name, Expectation(polynomial, *shown, known), found, because, **more)


# ---- named quantities at explicit models ----------------------------------------------------


def in_models(name: str, models: Callable[[], Iterable[Model]]) -> Check:
    """The step's relation (EQUAL or AT_MOST) holds in every explicit model.

    A model gives each named quantity an exact value computed from explicit entries.
    """

    def holds(step: Step) -> bool:
        gaps = [sp.sympify(step.rhs - step.lhs).xreplace(dict(model)) for model in models()]
        if step.relation is Relation.AT_MOST:
            return bool(gaps) and all(sp.N(gap, 40) > -1e-30 for gap in gaps)
        equal = all(gap == 0 or abs(sp.N(gap, 50)) < 1e-40 for gap in gaps)
        return bool(gaps) and equal and step.relation is Relation.EQUAL

    return Check(name, holds)
