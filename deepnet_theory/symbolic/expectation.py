r"""Mean squares of sums of matrix products, and named quantities checked on explicit matrices.

A row that passes independent matrices keeps no more than its mean square, and whether it is white
(uncorrelated entries of one size): with entries of mean 0 and variance σ² in W ∈ R^{a×b}

.. math:: E\|uW\|^2 = b\,\sigma^2\,E\|u\|^2, \qquad E\|u\Delta\|^2 = E\|u\|^2\,\|\Delta\|^2/a

for a white u ∈ R^a and a fixed Δ, and a fair mask of the entries halves it. Products are
uncorrelated where one alone holds a centred matrix, so their mean squares add. Only second moments
enter, hence entries ±σ give the same: all signs at explicit sizes are the check.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from html import escape
from itertools import product
from operator import add, mul
from typing import TYPE_CHECKING, Unpack

import sympy as sp
from sympy.printing.printer import Printer

from deepnet_theory.spec.errors import InputError
from deepnet_theory.symbolic.proof.step import Check, Options, Relation, Section, Step

if TYPE_CHECKING:
    from xml.dom.minidom import Element

Model = Mapping[sp.Expr, sp.Expr]
Entries = list[list[int]]
Values = Mapping["Matrix", Entries]

LARGEST = 10  # random entries; all their signs are tried


class Law(Enum):
    """FIXED: arbitrary; CENTRED: independent, mean 0; MASK: fair, each multiplying one entry.

    The values are entries to draw from: a random one has but two, as likely, of variance 1.
    """

    FIXED = (-5, -3, -2, 1, 4)
    CENTRED = (-1, 1)
    MASK = (0, 1)


@dataclass(frozen=True)
class Matrix:
    """A matrix, or a row; ``size`` is its norm where it is fixed, else its entries' variance."""

    name: str
    rows: sp.Expr
    columns: sp.Expr
    size: sp.Expr
    law: Law = Law.FIXED

    def shape(self, point: Model) -> tuple[int, int]:
        rows, columns = (sp.sympify(n).xreplace(dict(point)) for n in (self.rows, self.columns))
        return int(rows), int(columns)

    def filled(self, point: Model, entry: Callable[[], int]) -> Entries:
        rows, columns = self.shape(point)
        return [[entry() for _ in range(columns)] for _ in range(rows)]

    def drawn(self, point: Model, generator: random.Random) -> Entries:
        return self.filled(point, lambda: generator.choice(self.law.value))


@dataclass(frozen=True)
class Product:
    """A coefficient times a row that passes matrices."""

    coefficient: sp.Expr
    factors: tuple[Matrix, ...]

    @property
    def mean_square(self) -> sp.Expr:
        """E of the squared norm.

        Raises :class:`InputError` where a fixed matrix acts on a row that is not white, or where a
        matrix stands twice.
        """
        row, *matrices = self.factors
        if len(set(self.factors)) < len(self.factors):
            raise InputError(f"a matrix stands twice in {self}: not its variance alone enters")
        white = row.law is Law.CENTRED
        square = row.columns * row.size if white else row.size**2
        for matrix in matrices:
            if matrix.law is Law.MASK:
                square = square / 2
            elif matrix.law is Law.CENTRED:
                square, white = square * matrix.size * matrix.columns, True
            elif white:
                square, white = square / matrix.rows * matrix.size**2, False
            else:
                raise InputError(f"{matrix.name} in {self} acts on a row that is not white")
        return self.coefficient**2 * square

    def explicit(self, values: Values) -> list[int]:
        """The row at explicit matrices, without its coefficient."""
        first, *others = self.factors
        (row,) = values[first]
        for factor in others:
            if factor.law is Law.MASK:
                row = list(map(mul, row, *values[factor]))
            else:
                row = [sum(map(mul, row, column)) for column in zip(*values[factor], strict=True)]
        return row

    def __str__(self) -> str:
        names = [factor.name for factor in self.factors]
        return "*".join(names if self.coefficient == 1 else [str(self.coefficient), *names])

    def latex(self) -> str:
        names = (factor.name.replace("d", r"\Delta ") for factor in self.factors)
        return ("" if self.coefficient == 1 else sp.latex(self.coefficient)) + "".join(names)


@dataclass(frozen=True)
class Rows:
    """A sum of products, each a row of the same width."""

    products: tuple[Product, ...]

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.products + other.products)

    def along(self, matrix: Matrix, direction: Matrix) -> Rows:
        """The directional derivative: each occurrence of ``matrix`` replaced in turn."""
        found = []
        for p in self.products:
            for place, factor in enumerate(p.factors):
                if factor == matrix:
                    changed = (*p.factors[:place], direction, *p.factors[place + 1 :])
                    found.append(replace(p, factors=changed))
        return Rows(tuple(found))

    @property
    def mean_square(self) -> sp.Expr:
        """E of the squared norm; raises :class:`InputError` where a mixed term may not vanish."""
        for a, b in ((a, b) for n, a in enumerate(self.products) for b in self.products[:n]):
            apart = set(a.factors) ^ set(b.factors)
            if not any(matrix.law is Law.CENTRED for matrix in apart):
                raise InputError(f"no centred matrix tells {a} from {b}: they may be correlated")
        return sp.Add(*(p.mean_square for p in self.products))

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        return tuple(dict.fromkeys(factor for p in self.products for factor in p.factors))

    def explicit(self, values: Values, point: Model) -> sp.Matrix:
        """The row at explicit matrices and values of the coefficients' symbols."""
        first, *others = (
            sp.Matrix([p.explicit(values)]) * sp.sympify(p.coefficient).xreplace(dict(point))
            for p in self.products
        )
        return sum(others, first)


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

    def _mathml_presentation(self, printer: Printer) -> Element:
        element: Element = printer.dom.createElement("mi")
        # SymPy's printer writes text as it stands, a bracket < would open an element
        element.appendChild(printer.dom.createTextNode(escape(self._sympystr(printer))))
        return element

    _mathml_content = _mathml_presentation


class RowSum(Labelled):
    """A sum of matrix products as one SymPy atom, shown as it stands (or as ``label``)."""

    rows: Rows

    def __new__(cls, rows: Rows, label: str = "", latex: str = "") -> RowSum:
        node = super().__new__(cls)
        node.rows = rows
        node.label = label or " + ".join(map(str, rows.products))
        node.latex = latex or "+".join(p.latex() for p in rows.products)
        return node  # type: ignore[no-any-return]

    def _hashable_content(self) -> tuple[Hashable, ...]:
        return (self.label, self.rows)

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        return set().union(*(sp.sympify(p.coefficient).free_symbols for p in self.rows.products))


class MeanSquare(RowSum):
    """E of the squared norm of a row."""

    shown, shown_in_latex = "E[||{}||^2]", r"\mathbb{{E}}\left[\|{}\|^2\right]"


def _every_value(matrices: list[Matrix], point: Model) -> Iterator[dict[Matrix, Entries]]:
    """All values of random matrices, each as likely."""
    entries = [m.law.value for m in matrices for _ in range(math.prod(m.shape(point)))]
    for drawn in product(*entries):
        rest = iter(drawn)
        yield {matrix: matrix.filled(point, rest.__next__) for matrix in matrices}


def _at_random(symbols: set[sp.Expr], generator: random.Random) -> Model:
    return {
        symbol: sp.Rational(generator.randint(1, 30), generator.randint(7, 29))
        for symbol in sorted(symbols, key=str)
    }


@cache  # many right-hand sides are held against one left
def _enumerated(node: MeanSquare) -> tuple[tuple[Model, sp.Expr], ...]:
    """What the mean square is, by all signs of the random entries, at sizes of 1 to 3."""
    matrices, generator = node.rows.matrices, random.Random(str(node))
    chance = [matrix for matrix in matrices if matrix.law is not Law.FIXED]
    used = {sp.sympify(e) for m in matrices for e in (m.rows, m.columns)}
    axes = sorted(set().union(*(n.free_symbols for n in used)), key=str)
    symbols = node.free_symbols.union(*(m.size.free_symbols for m in chance))
    found = []
    for sizes in product(map(sp.Integer, (1, 2, 3)), repeat=len(axes)):
        point: dict[sp.Expr, sp.Expr] = dict(zip(axes, sizes, strict=True))
        if sum(math.prod(matrix.shape(point)) for matrix in chance) > LARGEST:
            continue
        fixed = {m: m.drawn(point, generator) for m in matrices if m not in chance}
        point |= {m.size: sp.Matrix(entries).norm() for m, entries in fixed.items()}
        point |= _at_random(symbols - set(point), generator)
        found.append((point, _average(node.rows, fixed, chance, point)))
    return tuple(found)


def is_enumerated(step: Step) -> bool:
    """Whether the right side is the left's mean square at every point that is enumerated."""
    (node,) = step.lhs.atoms(MeanSquare)
    points = _enumerated(node)
    for point, mean in points:
        others = _at_random(step.free_symbols - set(point), random.Random(step.name))
        left = step.lhs.xreplace({**point, **others, node: mean})
        if sp.expand(left - step.rhs.xreplace({**point, **others})) != 0:
            return False
    return len(points) > 2


def _average(rows: Rows, fixed: Values, chance: list[Matrix], point: Model) -> sp.Expr:
    """The mean over all signs of the squared norm, entries ±1 scaled to their variances."""
    products = rows.products
    total, count = [[0] * len(products) for _ in products], 0
    for signs in _every_value(chance, point):
        images = [p.explicit({**fixed, **signs}) for p in products]
        inner = ((sum(map(mul, a, b)) for b in images) for a in images)
        total = [list(map(add, old, new)) for old, new in zip(total, inner, strict=True)]
        count += 1
    variances = (
        sp.Mul(p.coefficient**2, *(f.size for f in p.factors if f.law is Law.CENTRED))
        for p in products
    )
    scale = sp.Matrix([[sp.sqrt(variance.xreplace(dict(point))) for variance in variances]])
    return (scale * sp.Matrix(total) * scale.T)[0] / count


ENUMERATED = Check("equal to the mean over all signs at explicit sizes", is_enumerated)


def moment(
    section: Section,
    name: str,
    rows: Rows,
    shown: tuple[str, str],
    because: str,
    **more: Unpack[Options],
) -> Step:
    """The step that gives a mean square its value; ``shown`` is the row as text and as LaTeX."""
    value = sp.factor(rows.mean_square)
    more.setdefault("checks", (ENUMERATED,))
    return section.equal(name, MeanSquare(rows, *shown), value, because, **more)


# ---- named quantities -----------------------------------------------------------------------


class NamedQuantity(sp.Symbol):  # type: ignore[misc]
    """A named real quantity, positive unless its assumptions say otherwise, with its own LaTeX."""

    latex: str

    def __new__(cls, name: str, latex: str = "", **assumptions: bool) -> NamedQuantity:
        quantity = super().__new__(cls, name, **(assumptions or {"positive": True}))
        quantity.latex = latex or sp.latex(sp.Symbol(name))
        return quantity  # type: ignore[no-any-return]

    def __getnewargs_ex__(self) -> tuple[tuple[str, str], dict[str, bool]]:
        return (self.name, self.latex), self._assumptions_orig

    def _latex(self, printer: Printer) -> str:
        return self.latex


def norm_of(name: str, latex: str = "") -> NamedQuantity:
    """The norm of the named vector or matrix."""
    return NamedQuantity(f"norm_{name}", rf"\|{latex or name}\|")


def output_change(of: str = "") -> NamedQuantity:
    """‖ΔF‖, how far an update moves the stack's output; of a sublayer or an order its share."""
    below = f"_{{{of}}}" if len(of) < 2 else rf"_{{\mathrm{{{of}}}}}"
    return norm_of(f"dF_{of}", rf"\Delta F{below}") if of else norm_of("dF", r"\Delta F")


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
