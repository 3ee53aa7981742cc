"""A second route to every matrix step: small explicit matrices and finite differences.

The formulas of ``spec`` (branch and residual equation) are evaluated here from their trees,
without SymPy's algebra; the right-hand side of a step is evaluated node by node. A step holds
where both agree. Plain lists, so that a derivation need not wait for an array library.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

import sympy as sp

from deepnet_theory.spec.expression import OperatorAlgebra, fold
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.nodes import (
    ONES,
    Above,
    Activation,
    Beside,
    Branch,
    DirectionalDifferential,
    Hadamard,
    Loss,
    Normalise,
    Softmax,
    Transpose,
)
from deepnet_theory.symbolic.laws.branch import delta, direction, gain, memory, transverse, x

TOKENS, WIDTH = 2, 3
STEP = 5e-5
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Matrix:
    """Rows of numbers, with the arithmetic of matrices; ``*`` by a number scales."""

    rows: list[list[float]]
    normalised: Matrix | None = None  # what it is the norm of

    def __iter__(self) -> Iterator[list[float]]:
        return iter(self.rows)

    def __add__(self, other: Matrix) -> Matrix:
        return self.beside(other, lambda p, q: p + q)

    def __sub__(self, other: Matrix) -> Matrix:
        return self.beside(other, lambda p, q: p - q)

    def __mul__(self, other: Matrix | float) -> Matrix:
        if not isinstance(other, Matrix):
            return self.each(lambda p: p * other)
        return Matrix([[sum(map(operator.mul, row, column)) for column in other.T] for row in self])

    def __rmul__(self, scalar: float) -> Matrix:
        return self * scalar

    def __truediv__(self, scalar: float) -> Matrix:
        return self * (1.0 / scalar)

    def each(self, of: Callable[[float], float]) -> Matrix:
        """A function of every entry."""
        return Matrix([[of(p) for p in row] for row in self])

    def beside(self, other: Matrix, of: Callable[[float, float], float]) -> Matrix:
        """A function of every entry and the other matrix's."""
        pairs = zip(self, other, strict=True)
        return Matrix([[of(p, q) for p, q in zip(r, s, strict=True)] for r, s in pairs])

    @property
    def T(self) -> Matrix:
        """The transpose."""
        return Matrix([list(column) for column in zip(*self, strict=True)])

    @property
    def norm(self) -> float:
        """The Frobenius norm."""
        return math.hypot(*(p for row in self for p in row))


def random_matrix(generator: random.Random, rows: int = WIDTH, columns: int = WIDTH) -> Matrix:
    """A matrix of normal entries, small enough that no softmax saturates."""
    return Matrix([[generator.gauss(0.0, 0.6) for _ in range(columns)] for _ in range(rows)])


def leaky_relu(a: Matrix) -> Matrix:
    """The activation used as witness: positively homogeneous of degree 1, and never all zero."""
    return a.each(lambda p: max(p, 0.2 * p))


def softmax(a: Matrix) -> Matrix:
    """Softmax over the last axis."""
    weights = [[math.exp(p - max(row)) for p in row] for row in a]
    return Matrix([[w / sum(row) for w in row] for row in weights])


def normalise(a: Matrix) -> Matrix:
    """LayerNorm without gain and bias."""
    centred = [[p - sum(row) / len(row) for p in row] for row in a]
    return Matrix([[p * len(row) ** 0.5 / math.hypot(*row) for p in row] for row in centred], a)


def hadamard(a: Matrix, b: Matrix) -> Matrix:
    """The entrywise product."""
    return a.beside(b, lambda p, q: p * q)


def distance(a: Matrix, b: Matrix) -> float:
    """The Frobenius distance, relative to the largest entry of both."""
    return (a - b).norm / max(1e-3, *(abs(p) for m in (a, b) for row in m for p in row))


def central_difference(f: Callable[[float], Matrix]) -> Matrix:
    """f′(0) to fourth order: (8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h."""
    near, far = f(STEP) - f(-STEP), f(2 * STEP) - f(-2 * STEP)
    return (8.0 * near - far) / (12 * STEP)


def any_branch(a: Matrix) -> Matrix:
    """A branch of no particular form, for statements that hold whatever the branch is."""
    return Matrix([[math.tanh(p) + 0.3 * row[i - 1] ** 2 for i, p in enumerate(row)] for row in a])


def any_loss(a: Matrix) -> Matrix:
    """A loss of no particular form, a 1×1 matrix."""
    entries = [p for row in a for p in row]
    terms = (math.sin(p + i) + 0.1 * i * p * entries[i - 1] for i, p in enumerate(entries))
    return Matrix([[sum(terms)]])


_MAPS: dict[type[sp.Expr], Callable[..., Matrix]] = {
    Branch: any_branch,
    Activation: leaky_relu,
    Softmax: softmax,
    Normalise: normalise,
    Loss: any_loss,
    Transpose: lambda a: a.T,
    Hadamard: hadamard,
    Beside: lambda a, b: Matrix([left + right for left, right in zip(a, b, strict=True)]),
    Above: lambda a, b: Matrix(a.rows + b.rows),
}


@dataclass
class Witness:
    """Random values for every symbol of a sublayer inside a placement."""

    sublayer: Sublayer
    placement: Placement
    seed: int = 0
    values: dict[sp.Symbol, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        generator = random.Random(self.seed)
        self.values.update(
            {x: random_matrix(generator, TOKENS), memory: random_matrix(generator, TOKENS)}
        )
        self.values[ONES] = Matrix([[1.0]] * TOKENS)
        self.values[delta] = 0.0
        for matrix in self.sublayer.matrices:
            self.values[gain(matrix.name)] = generator.uniform(0.4, 1.6)
            self.values[direction(matrix.name)] = random_matrix(generator)
            self.values[transverse(matrix.name)] = random_matrix(generator)
        for vector in self.sublayer.vectors:
            self.values[transverse(vector.name)] = random_matrix(generator, 1)
        self.alpha = generator.uniform(1.1, 1.9)

    def inner(self, changed: dict[sp.Symbol, float], perturbed: str | None = None) -> Matrix:
        """z: what the outermost norm is applied to, with the identity path at weight 1."""
        placed = self.output(changed, perturbed)
        return placed if placed.normalised is None else placed.normalised / self.alpha

    def output(self, changed: dict[sp.Symbol, float], perturbed: str | None = None) -> Matrix:
        """x_{l+1}: the sublayer's output, its outermost norm included."""
        placed = _Placed(self, {**self.values, **changed}, perturbed)
        value: Matrix = fold(self.placement.expression.root, placed)
        return value

    def derivative(self, symbol: sp.Symbol, perturbed: str | None = None) -> Matrix:
        """∂z/∂symbol by a finite difference."""
        at = self.values[symbol]
        return central_difference(lambda step: self.inner({symbol: at + step}, perturbed))

    def evaluate(self, node: sp.Expr, alpha_symbol: sp.Symbol) -> Any:
        """A SymPy expression of nodes, scalars and matrix symbols, as numbers."""
        return value_of(node, {**self.values, alpha_symbol: self.alpha})


def value_of(node: sp.Expr, values: dict[sp.Symbol, Any]) -> Any:
    """A SymPy expression of nodes, scalars and matrix symbols, at the values of its symbols."""

    def value(item: sp.Expr) -> Any:
        if item.is_Number:
            return float(item)
        if item.is_Symbol:
            return values[item]
        if item.is_Add:
            return reduce(operator.add, map(value, item.args))
        if item.is_Mul:
            return reduce(operator.mul, map(value, item.args))
        if item.is_Pow:
            return value(item.base) ** float(item.exp)
        if isinstance(item, DirectionalDifferential):
            f = _MAPS[item.args[0].function]
            point, along = value(item.args[1]), value(item.args[2])
            return central_difference(lambda step: f(point + step * along))
        if isinstance(item, sp.Derivative):
            function, (symbol, _) = item.args
            at = values[symbol]
            return central_difference(lambda h: value_of(function, {**values, symbol: at + h}))
        return _MAPS[type(item)](*(value(a) for a in item.args))

    return value(node)


@dataclass(frozen=True)
class _Placed(OperatorAlgebra[Matrix]):
    """The algebra of a residual equation on explicit matrices."""

    witness: Witness
    values: dict[sp.Symbol, Any]
    perturbed: str | None

    def number(self, value: Fraction) -> Any:
        return float(value)

    def name(self, name: str) -> Any:
        return self.witness.alpha if name == "alpha" else self.values[x]

    def power(self, base: Any, exponent: Fraction) -> Any:
        return base ** float(exponent)

    def call(self, function: str, arguments: tuple[Matrix, ...]) -> Matrix:
        (argument,) = arguments
        if function == "norm":
            return normalise(argument)
        algebra = _Branch(self.witness.sublayer, {**self.values, x: argument}, self.perturbed)
        value: Matrix = fold(self.witness.sublayer.expression.root, algebra)
        return value


@dataclass(frozen=True)
class _Branch(OperatorAlgebra[Matrix]):
    """The algebra of a branch formula on explicit matrices."""

    sublayer: Sublayer
    values: dict[sp.Symbol, Any]
    perturbed: str | None

    def number(self, value: Fraction) -> Matrix:
        raise TypeError("a branch holds a number")

    def name(self, name: str) -> Matrix:
        if name in ("x", "memory"):
            return self.values[x if name == "x" else memory]  # type: ignore[no-any-return]
        moved = self.values[delta] * self.values[transverse(name)]
        if any(name == v.name for v in self.sublayer.vectors):
            bias: Matrix = self.values[ONES] * moved
            return bias if name == self.perturbed else 0.0 * bias
        weight: Matrix = self.values[gain(name)] * self.values[direction(name)]
        return weight + moved if name == self.perturbed else weight

    def power(self, base: Matrix, exponent: Fraction) -> Matrix:
        raise TypeError("a branch holds a power of a matrix")

    def call(self, function: str, arguments: tuple[Matrix, ...]) -> Matrix:
        kind = {"phi": Activation, "softmax": Softmax, "T": Transpose, "hadamard": Hadamard}
        return _MAPS[kind[function]](*arguments)
