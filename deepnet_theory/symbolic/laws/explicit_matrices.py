"""SymPy's matrix expressions at explicit matrices, node by node: a second route to every step.

A step holds where its sides, evaluated here, agree with the formulas of ``spec`` evaluated from
their trees (:class:`~deepnet_theory.symbolic.proof.witness.Witness`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import sympy as sp

from deepnet_theory.spec.placement import placement
from deepnet_theory.spec.sublayer import sublayer
from deepnet_theory.symbolic.algebra import (
    ONES,
    Activation,
    Branch,
    DirectionalDifferential,
    Hadamard,
    Normalise,
    Softmax,
    Transpose,
    alpha,
)
from deepnet_theory.symbolic.laws.placement import P, delta, direction, gain, memory, transverse, x
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.proof.witness import (
    TOKENS,
    TOLERANCE,
    Matrix,
    Witness,
    distance,
    leaky_relu,
    normalise,
    softmax,
)

STEP = 5e-5


def central_difference(f: Callable[[float], Matrix]) -> Matrix:
    """f′(0) to fourth order: (8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h."""
    near, far = f(STEP) - f(-STEP), f(2 * STEP) - f(-2 * STEP)
    return (8.0 * near - far) / (12 * STEP)


def any_branch(a: Matrix) -> Matrix:
    """A branch of no particular form, for statements that hold whatever the branch is."""
    return Matrix([[math.tanh(p) + 0.3 * row[i - 1] ** 2 for i, p in enumerate(row)] for row in a])


Maps = Mapping[type[sp.Expr], Callable[..., Matrix]]
_MAPS: Maps = {
    Branch: any_branch,
    Activation: leaky_relu,
    Softmax: softmax,
    Normalise: normalise,
    Transpose: lambda a: a.T,
    Hadamard: Matrix.hadamard,
}


def values_of(witness: Witness) -> dict[sp.Symbol, Any]:
    """What the symbols of a probed sublayer are in a witness."""
    stream, context = witness.stream
    values: dict[sp.Symbol, Any] = {x: stream, memory: context, alpha: witness.alpha, delta: 0.0}
    values[ONES] = Matrix([[1.0]] * TOKENS)
    for matrix in witness.sublayer.matrices:
        values[gain(matrix.name)] = witness.gains[matrix.name]
        values[direction(matrix.name)], values[transverse(matrix.name)] = witness.directions[
            matrix.name
        ]
    for vector in witness.sublayer.vectors:
        values[transverse(vector.name)] = Matrix(witness.directions[vector.name][1].rows[:1])
    return values


def value_of(
    node: sp.Expr, values: Mapping[sp.Symbol, Any], maps: Maps = MappingProxyType({})
) -> Any:
    """A SymPy expression of nodes, scalars and matrix symbols, at the values of its symbols.

    ``maps`` are what stands for nodes of one's own.
    """
    known = {**_MAPS, **maps}

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
            f = known[item.args[0].function]
            point, along = value(item.args[1]), value(item.args[2])
            return central_difference(lambda step: f(point + step * along))
        if isinstance(item, sp.Derivative):
            function, (symbol, _) = item.args
            at = dict(values)
            return central_difference(
                lambda h: value_of(function, {**at, symbol: at[symbol] + h}, maps)
            )
        return known[type(item)](*(value(a) for a in item.args))

    return value(node)


def agree(values: Mapping[sp.Symbol, Any] | None = None) -> Check:
    """Both sides of a step in x, α and P, with an arbitrary branch, are one matrix."""

    def holds(step: Step) -> bool:
        witness = Witness.drawn(sublayer("ffn"), placement("post-ln"))
        at = {**values_of(witness), P: 0.7, **(values or {})}
        return distance(*(value_of(side, at) for side in (step.lhs, step.rhs))) < TOLERANCE

    return Check("explicit matrices", holds)
