r"""Mean squares of sums of matrix products, and named quantities checked on explicit matrices.

A row that passes independent matrices keeps no more than its mean square, and whether it is white
(uncorrelated entries of one size): with entries of mean 0 and variance σ² in W ∈ R^{a×b}

.. math:: E\|uW\|^2 = b\,\sigma^2\,E\|u\|^2, \qquad E\|u\Delta\|^2 = E\|u\|^2\,\|\Delta\|^2/a

for a white u ∈ R^a and a fixed Δ, and a fair mask of the entries halves it. Products are
uncorrelated where one alone holds a centred matrix, so their mean squares add. Only second moments
enter, hence entries ±σ give the same: polynomials in explicit entries are the check.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache, partial
from itertools import combinations, product
from operator import mul
from typing import Any, Unpack

import sympy as sp
from sympy.polys.rings import xring

from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.proof.notation import Labelled
from deepnet_theory.proof.step import Check, Options, Relation, Section, Step

Model = Mapping[sp.Expr, sp.Expr]
Entries = list[list[Any]]
Values = Mapping["Matrix", Entries]


class Law(Enum):
    """FIXED: arbitrary; CENTRED: independent, mean 0; MASK: fair, each multiplying one entry."""

    FIXED = auto()
    CENTRED = auto()
    MASK = auto()


@dataclass(frozen=True)
class Matrix:
    """A matrix, or a row; ``size`` is its norm where it is fixed, else its entries' variance."""

    name: str
    rows: sp.Expr
    columns: sp.Expr
    size: sp.Expr
    law: Law = Law.FIXED

    def filled(self, point: Model, entry: Callable[[], Any]) -> Entries:
        rows, columns = (
            int(sp.sympify(n).xreplace(dict(point))) for n in (self.rows, self.columns)
        )
        return [[entry() for _ in range(columns)] for _ in range(rows)]

    def drawn(self, point: Model, generator: random.Random) -> Entries:
        return self.filled(point, partial(generator.choice, (-5, -3, -2, 1, 4)))


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

    def explicit(self, values: Values) -> list[Any]:
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
        return Rows(tuple(
            replace(p, factors=(*p.factors[:place], direction, *p.factors[place + 1 :]))
            for p in self.products
            for place, factor in enumerate(p.factors)
            if factor == matrix
        ))  # fmt: skip

    @property
    def mean_square(self) -> sp.Expr:
        """E of the squared norm; raises :class:`InputError` where a mixed term may not vanish."""
        for a, b in combinations(self.products, 2):
            apart = set(a.factors) ^ set(b.factors)
            if not any(matrix.law is Law.CENTRED for matrix in apart):
                raise InputError(f"no centred matrix tells {a} from {b}: they may be correlated")
        return sp.Add(*(p.mean_square for p in self.products))

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        return tuple(dict.fromkeys(factor for p in self.products for factor in p.factors))

    def explicit(self, values: Values, point: Model) -> list[Any]:
        """The row at explicit matrices and values of the coefficients' symbols."""
        images = (
            [
                entry * sp.sympify(p.coefficient).xreplace(dict(point))
                for entry in p.explicit(values)
            ]
            for p in self.products
        )
        return [sum(entries) for entries in zip(*images, strict=True)]


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


def _at_random(symbols: set[sp.Expr], generator: random.Random) -> Model:
    return {
        symbol: sp.Rational(generator.randint(1, 30), generator.randint(7, 29))
        for symbol in sorted(symbols, key=str)
    }


@cache  # many right-hand sides are held against one left
def _explicit_means(node: MeanSquare) -> tuple[tuple[Model, sp.Expr], ...]:
    """What the mean square is, entry by entry, at sizes of 1 to 3."""
    matrices, generator = node.rows.matrices, random.Random(str(node))
    chance = [matrix for matrix in matrices if matrix.law is not Law.FIXED]
    used = {sp.sympify(size) for matrix in matrices for size in (matrix.rows, matrix.columns)}
    axes = sorted(set().union(*(size.free_symbols for size in used)), key=str)
    symbols = node.free_symbols.union(*(m.size.free_symbols for m in chance))
    means = []
    for sizes in product(map(sp.Integer, (1, 2, 3)), repeat=len(axes)):
        point: dict[sp.Expr, sp.Expr] = dict(zip(axes, sizes, strict=True))
        fixed = {m: m.drawn(point, generator) for m in matrices if m not in chance}
        point |= {m.size: sp.Matrix(entries).norm() for m, entries in fixed.items()}
        point |= _at_random(symbols - set(point), generator)
        means.append((point, _mean(node.rows, fixed, chance, point)))
    return tuple(means)


def _mean(rows: Rows, fixed: Values, chance: list[Matrix], point: Model) -> sp.Expr:
    """E of the squared norm, a polynomial in the random entries, taken term by term."""
    shapes = {matrix: matrix.filled(point, int) for matrix in chance}
    laws = [matrix for matrix, entries in shapes.items() for row in entries for _ in row]
    ring, variables = xring([f"w{n}" for n in range(len(laws) + 1)], sp.QQ)
    rest = iter(variables)
    drawn = {matrix: matrix.filled(point, rest.__next__) for matrix in chance}
    square = sum(entry * entry for entry in rows.explicit({**fixed, **drawn}, point))
    means = [partial(_power_mean, m.law, m.size.xreplace(dict(point))) for m in laws]
    return sum(
        sp.Mul(coefficient, *(mean(n) for mean, n in zip(means, powers, strict=False) if n))
        for powers, coefficient in ring.ring_new(square).terms()
    )


def _power_mean(law: Law, variance: sp.Expr, power: int) -> sp.Expr:
    """E of an entry's power, for entries ±σ, or of a mask that is 1 as often as 0."""
    if law is Law.MASK:
        return sp.S.Half
    return sp.S.Zero if power % 2 else variance ** (power // 2)


def is_mean(step: Step) -> bool:
    """Whether the right side is the left's mean square at all explicit sizes."""
    (node,) = step.lhs.atoms(MeanSquare)
    for point, mean in _explicit_means(node):
        values = {**point, **_at_random(step.free_symbols - set(point), random.Random(step.name))}
        if sp.expand(step.lhs.xreplace({**values, node: mean}) - step.rhs.xreplace(values)) != 0:
            return False
    return True


ENUMERATED = Check("equal to the mean at explicit sizes, entry by entry", is_mean)


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
