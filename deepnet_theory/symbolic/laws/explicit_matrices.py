"""A second route to every matrix step: small explicit matrices and finite differences.

The formulas of ``spec`` (branch and residual equation) are evaluated here from their trees,
without SymPy's algebra; the right-hand side of a step is evaluated node by node. A step holds
where both agree. Plain lists, so that a derivation need not wait for an array library.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sympy as sp

from deepnet_theory.spec.expression import fold
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

Rows = list[list[float]]
TOKENS, WIDTH = 2, 3
STEP = 5e-5
TOLERANCE = 1e-6


def random_matrix(generator: random.Random, rows: int = WIDTH, columns: int = WIDTH) -> Rows:
    """A matrix of normal entries, small enough that no softmax saturates."""
    return [[generator.gauss(0.0, 0.6) for _ in range(columns)] for _ in range(rows)]


def product(a: Rows, b: Rows) -> Rows:
    """The matrix product."""
    return [
        [sum(p * q for p, q in zip(row, column, strict=True)) for column in zip(*b, strict=True)]
        for row in a
    ]


def combine(a: Rows, b: Rows, s: float = 1.0) -> Rows:
    """a + s·b."""
    return [[p + s * q for p, q in zip(r, t, strict=True)] for r, t in zip(a, b, strict=True)]


def scale(a: Rows, s: float) -> Rows:
    """s·a."""
    return [[s * p for p in row] for row in a]


def leaky_relu(a: Rows) -> Rows:
    """The activation used as witness: positively homogeneous of degree 1, and never all zero."""
    return [[max(p, 0.2 * p) for p in row] for row in a]


def softmax(a: Rows) -> Rows:
    """Softmax over the last axis."""
    result = []
    for row in a:
        weights = [math.exp(p - max(row)) for p in row]
        result.append([w / sum(weights) for w in weights])
    return result


def normalise(a: Rows) -> Rows:
    """LayerNorm without gain and bias."""
    result = []
    for row in a:
        mean = sum(row) / len(row)
        deviation = math.sqrt(sum((p - mean) ** 2 for p in row) / len(row))
        result.append([(p - mean) / deviation for p in row])
    return result


def transposed(a: Rows) -> Rows:
    """The transpose."""
    return [list(column) for column in zip(*a, strict=True)]


def hadamard(a: Rows, b: Rows) -> Rows:
    """The entrywise product."""
    return [[p * q for p, q in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


def distance(a: Rows, b: Rows) -> float:
    """The Frobenius distance, relative to the largest entry of both."""
    size = max(1e-3, *(abs(p) for m in (a, b) for row in m for p in row))
    return math.sqrt(sum(p * p for row in combine(a, b, -1.0) for p in row)) / size


def central_difference(f: Callable[[float], Rows]) -> Rows:
    """f′(0) to fourth order: (8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h."""
    near = combine(f(STEP), f(-STEP), -1.0)
    far = combine(f(2 * STEP), f(-2 * STEP), -1.0)
    return scale(combine(scale(near, 8.0), far, -1.0), 1.0 / (12 * STEP))


def any_branch(a: Rows) -> Rows:
    """A branch of no particular form, for statements that hold whatever the branch is."""
    return [[math.tanh(p) + 0.3 * row[i - 1] ** 2 for i, p in enumerate(row)] for row in a]


def any_loss(a: Rows) -> Rows:
    """A loss of no particular form, a 1×1 matrix."""
    entries = [p for row in a for p in row]
    return [[sum(math.sin(p + i) + 0.1 * i * p * entries[i - 1] for i, p in enumerate(entries))]]


def beside(a: Rows, b: Rows) -> Rows:
    """[A B]: the columns of both."""
    return [left + right for left, right in zip(a, b, strict=True)]


def above(a: Rows, b: Rows) -> Rows:
    """[A; B]: the rows of both."""
    return a + b


_MAPS: dict[type[sp.Expr], Callable[..., Rows]] = {
    Branch: any_branch,
    Activation: leaky_relu,
    Softmax: softmax,
    Normalise: normalise,
    Loss: any_loss,
    Transpose: transposed,
    Hadamard: hadamard,
    Beside: beside,
    Above: above,
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
        self.values[ONES] = [[1.0] for _ in range(TOKENS)]
        self.values[delta] = 0.0
        for matrix in self.sublayer.matrices:
            self.values[gain(matrix.name)] = generator.uniform(0.4, 1.6)
            self.values[direction(matrix.name)] = random_matrix(generator)
            self.values[transverse(matrix.name)] = random_matrix(generator)
        for vector in self.sublayer.vectors:
            self.values[transverse(vector.name)] = random_matrix(generator, 1)
        self.alpha = generator.uniform(1.1, 1.9)

    def inner(self, changed: dict[sp.Symbol, float], perturbed: str | None = None) -> Rows:
        """z: what the outermost norm is applied to, with the identity path at weight 1."""
        placed = self._placed(changed, perturbed)
        return placed.value if placed.before is None else scale(placed.before, 1.0 / self.alpha)

    def output(self, changed: dict[sp.Symbol, float]) -> Rows:
        """x_{l+1}: the sublayer's output, its outermost norm included."""
        value: Rows = self._placed(changed, None).value
        return value

    def _placed(self, changed: dict[sp.Symbol, float], perturbed: str | None) -> _Signal:
        values = {**self.values, **changed}
        placed: _Signal = fold(self.placement.expression.root, _Placed(self, values, perturbed))
        return placed

    def derivative(self, symbol: sp.Symbol, perturbed: str | None = None) -> Rows:
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
            terms = [value(a) for a in item.args]
            total = terms[0]
            for term in terms[1:]:
                total = combine(total, term) if isinstance(total, list) else total + term
            return total
        if item.is_Mul:
            result: Any = 1.0
            for factor in (value(a) for a in item.args):
                if isinstance(result, list) and isinstance(factor, list):
                    result = product(result, factor)
                elif isinstance(result, list):
                    result = scale(result, factor)
                elif isinstance(factor, list):
                    result = scale(factor, result)
                else:
                    result = result * factor
            return result
        if item.is_Pow:
            return value(item.base) ** float(item.exp)
        if isinstance(item, DirectionalDifferential):
            f = _MAPS[item.args[0].function]
            point, along = value(item.args[1]), value(item.args[2])
            return central_difference(lambda step: f(combine(point, along, step)))
        return _MAPS[type(item)](*(value(a) for a in item.args))

    return value(node)


@dataclass(frozen=True)
class _Signal:
    """A value, and what it was before the outermost norm."""

    value: Any
    before: Rows | None = None


@dataclass(frozen=True)
class _Placed:
    """The algebra of a residual equation on explicit matrices."""

    witness: Witness
    values: dict[sp.Symbol, Any]
    perturbed: str | None

    def number(self, value: Fraction) -> _Signal:
        return _Signal(float(value))

    def name(self, name: str) -> _Signal:
        return _Signal(self.witness.alpha if name == "alpha" else self.values[x])

    def add(self, left: _Signal, right: _Signal) -> _Signal:
        return _Signal(combine(left.value, right.value))

    def subtract(self, left: _Signal, right: _Signal) -> _Signal:
        return _Signal(combine(left.value, right.value, -1.0))

    def multiply(self, left: _Signal, right: _Signal) -> _Signal:
        a, b = left.value, right.value
        return _Signal(scale(b, a) if isinstance(b, list) else scale(a, b))

    def divide(self, left: _Signal, right: _Signal) -> _Signal:
        return _Signal(scale(left.value, 1.0 / right.value))

    def power(self, base: _Signal, exponent: Fraction) -> _Signal:
        return _Signal(base.value ** float(exponent))

    def call(self, function: str, arguments: tuple[_Signal, ...]) -> _Signal:
        argument = arguments[0].value
        if function == "norm":
            return _Signal(normalise(argument), argument)
        algebra = _Branch(self.witness.sublayer, {**self.values, x: argument}, self.perturbed)
        value: Rows = fold(self.witness.sublayer.expression.root, algebra)
        return _Signal(value)


@dataclass(frozen=True)
class _Branch:
    """The algebra of a branch formula on explicit matrices."""

    sublayer: Sublayer
    values: dict[sp.Symbol, Any]
    perturbed: str | None

    def number(self, value: Fraction) -> Rows:
        raise TypeError("a branch holds a number")

    def name(self, name: str) -> Rows:
        if name in ("x", "memory"):
            return self.values[x if name == "x" else memory]  # type: ignore[no-any-return]
        if any(name == v.name for v in self.sublayer.vectors):
            size = self.values[delta] if name == self.perturbed else 0.0
            return scale(product(self.values[ONES], self.values[transverse(name)]), size)
        weight = scale(self.values[direction(name)], self.values[gain(name)])
        if name == self.perturbed:
            weight = combine(weight, self.values[transverse(name)], self.values[delta])
        return weight

    def add(self, left: Rows, right: Rows) -> Rows:
        return combine(left, right)

    def subtract(self, left: Rows, right: Rows) -> Rows:
        return combine(left, right, -1.0)

    def multiply(self, left: Rows, right: Rows) -> Rows:
        return product(left, right)

    def divide(self, left: Rows, right: Rows) -> Rows:
        raise TypeError("a branch divides by a matrix")

    def power(self, base: Rows, exponent: Fraction) -> Rows:
        raise TypeError("a branch holds a power of a matrix")

    def call(self, function: str, arguments: tuple[Rows, ...]) -> Rows:
        if function == "hadamard":
            return hadamard(*arguments)
        return {"phi": leaky_relu, "softmax": softmax, "T": transposed}[function](arguments[0])
