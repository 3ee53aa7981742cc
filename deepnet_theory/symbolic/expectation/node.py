"""Expectations and indexed sums as SymPy atoms, and the check that enumerates them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from html import escape
from itertools import product
from typing import TYPE_CHECKING, Unpack

import sympy as sp
from sympy.printing.pretty.stringpict import prettyForm
from sympy.printing.printer import Printer

from deepnet_theory.symbolic.expectation.contraction import Known, expect
from deepnet_theory.symbolic.expectation.enumeration import Entries, enumerate_expectation
from deepnet_theory.symbolic.expectation.exact import Number, Point, exact, is_zero, root
from deepnet_theory.symbolic.expectation.polynomial import Index, Polynomial, Tensor, Term
from deepnet_theory.symbolic.proof.step import Check, Options, Section, Step

if TYPE_CHECKING:
    from xml.dom.minidom import Element


class IndexSum(sp.AtomicExpr):  # type: ignore[misc]
    """A polynomial in indexed entries as one SymPy atom, shown as its sums (or ``label``)."""

    is_commutative = True

    def __new__(
        cls, polynomial: Polynomial, label: str = "", latex: str = "", known: tuple[Known, ...] = ()
    ) -> IndexSum:
        node = super().__new__(cls)
        node.polynomial = polynomial
        node.label = label or str(polynomial)
        node.latex = latex or (label and sp.latex(sp.Symbol(label))) or polynomial.latex()
        node.known = known
        return node  # type: ignore[no-any-return]

    polynomial: Polynomial
    label: str
    latex: str
    known: tuple[Known, ...]

    def _hashable_content(self) -> tuple[Hashable, ...]:
        return (self.label, str(self.polynomial), self.polynomial.tensors)

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        """The symbols of coefficients, ranges and variances; entries are not symbols."""
        found = set(self.polynomial.symbols)
        for tensor in self.polynomial.tensors:
            variance = getattr(tensor.law, "variance", None)
            if variance is not None:
                found |= sp.sympify(variance).free_symbols
        return found

    def _text(self) -> str:
        return self.label

    def _tex(self) -> str:
        return rf"{{{self.latex}}}"  # braces, so that a power of a square stays valid

    def _sympystr(self, printer: Printer) -> str:
        return self._text()

    def _latex(self, printer: Printer) -> str:
        return self._tex()

    def _pretty(self, printer: Printer) -> prettyForm:
        return prettyForm(self._text())

    def _mathml_presentation(self, printer: Printer) -> Element:
        element: Element = printer.dom.createElement("mi")
        # SymPy's printer writes text as it stands, a bracket < would open an element
        element.appendChild(printer.dom.createTextNode(escape(self._text())))
        return element

    _mathml_content = _mathml_presentation


class Expectation(IndexSum):
    """The expectation of an indexed polynomial over its random tensors."""

    def _text(self) -> str:
        return f"E[{self.label}]"

    def _tex(self) -> str:
        return rf"\mathbb{{E}}\left[{self.latex}\right]"

    def doit(self, **hints: bool) -> sp.Expr:
        """Its value, by Kronecker contraction."""
        return expect(self.polynomial, self.known)


def random_entries(
    tensor: Tensor, point: Point, generator: random.Random
) -> dict[tuple[int, ...], int]:
    """Random integer entries for a tensor whose axes have the lengths of ``point``."""
    ranges = (range(1, int(exact(size, point)) + 1) for size in tensor.axes)
    return {
        place: generator.choice((-1, 1)) * generator.randint(1, 19) for place in product(*ranges)
    }


def sizes_that_determine(polynomial: Polynomial) -> Iterator[dict[sp.Expr, int]]:
    """Enough sizes to determine a polynomial in the ranges: degree + 1 for each range.

    The expectation is a polynomial in each range. Its degree is at most the number of indices
    over it that can differ. Every entry of a centred tensor must occur twice, so an index that
    no other factor of that tensor carries on that axis must share its value with another index:
    those count by half. Two polynomials of that degree that agree at all these sizes are equal.
    """
    degrees: dict[sp.Expr, int] = {}
    for term in polynomial.terms:
        carried = Counter(
            (index, tensor, axis)
            for tensor, indices in term.factors
            if tensor.law is not None and tensor.law.cumulant(1) == 0
            for axis, index in enumerate(indices)
        )
        alone = {index for (index, _, _), times in carried.items() if times == 1}
        single: Counter[sp.Expr] = Counter(i.size for i in term.bound if i in alone)
        several: Counter[sp.Expr] = Counter(i.size for i in term.bound if i not in alone)
        for size in {i.size for i in term.indices}:
            degree = several[size] + (single[size] + bool(_free_over(term, size))) // 2
            degrees[size] = max(degrees.get(size, 0), degree)
    symbols = sorted(degrees, key=str)
    for sizes in product(*(range(1, degrees[s] + 2) for s in symbols)):
        yield dict(zip(symbols, sizes, strict=True))


def _free_over(term: Term, size: sp.Expr) -> list[Index]:
    return [i for i in term.free if i.size == size]


def is_enumerated(step: Step) -> bool:
    """``lhs = rhs`` where every :class:`Expectation` is replaced by its explicit sum.

    At all sizes that determine the polynomial; the other symbols, the fixed tensors and the
    free indices take random values.
    """
    generator = random.Random(step.name)
    difference = step.lhs - step.rhs
    nodes = list(difference.atoms(IndexSum))
    if not nodes:
        return False
    symbols = step.free_symbols.union(*(n.free_symbols for n in nodes))
    grid = {
        tuple(sorted(sizes.items(), key=lambda item: str(item[0])))
        for node in nodes
        for sizes in sizes_that_determine(node.polynomial)
    }
    widest = {s for sizes in grid for s, _ in sizes}
    for sizes in sorted(grid, key=str):
        point: dict[sp.Expr, Number | int] = {s: Fraction(2) for s in widest} | {
            s: Fraction(v) for s, v in sizes
        }
        if not _vanishes_at(point, difference, nodes, symbols, generator):
            return False
    return True


def _vanishes_at(
    point: dict[sp.Expr, Number | int],
    difference: sp.Expr,
    nodes: list[IndexSum],
    symbols: set[sp.Symbol],
    generator: random.Random,
) -> bool:
    # A symbol for a known invariant of fixed tensors follows from their entries.
    invariants = {k.symbol: k for node in nodes for k in node.known}
    for symbol in sorted(symbols - set(invariants) - set(point), key=str):
        point[symbol] = Fraction(generator.randint(1, 30), generator.randint(7, 29))
    values: dict[Tensor, Entries] = {}
    for tensor in _fixed(nodes, invariants):
        values[tensor] = random_entries(tensor, point, generator)
    at = {
        index.name: generator.randint(1, int(point[index.size]))
        for index in sorted(_free(nodes), key=lambda i: i.name)
    }
    for symbol, item in invariants.items():
        number = enumerate_expectation(item.polynomial, point, values, at)
        point[symbol] = root(number) if item.power == 2 else number
    for node in nodes:
        point[node] = enumerate_expectation(node.polynomial, point, values, at)
    point |= {sp.Symbol(name): value for name, value in at.items()}
    return is_zero(exact(difference, point))


def _fixed(nodes: list[IndexSum], invariants: Mapping[sp.Symbol, Known]) -> list[Tensor]:
    polynomials = [n.polynomial for n in nodes] + [k.polynomial for k in invariants.values()]
    found = dict.fromkeys(t for p in polynomials for t in p.tensors if t.law is None)
    return list(found)


def _free(nodes: list[IndexSum]) -> set[Index]:
    return {i for node in nodes for term in node.polynomial.terms for i in term.free}


ENUMERATED = Check("equal to explicit sums at sizes that determine it", is_enumerated)


def moment(
    section: Section,
    name: str,
    polynomial: Polynomial,
    shown: tuple[str, str],
    because: str,
    known: tuple[Known, ...] = (),
    value: sp.Expr | None = None,
    **more: Unpack[Options],
) -> Step:
    """The step that gives an expectation its value, held against explicit sums.

    ``shown`` is what stands for the polynomial, as text and as LaTeX; ``value`` its contraction
    in another form.
    """
    expected = Expectation(polynomial, *shown, known)
    found = expected.doit() if value is None else value
    more.setdefault("checks", (ENUMERATED,))
    return section.equal(name, expected, found, because, **more)
