"""A branch formula with its matrices probed: W = λU, or W = λU + δV for a transverse probe."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import sympy as sp

from deepnet_theory.spec.expression import OperatorAlgebra, fold
from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.depth import rational
from deepnet_theory.symbolic.algebra.nodes import (
    ONES,
    Activation,
    Hadamard,
    Normalise,
    Softmax,
    Transpose,
)

x = sp.Symbol("x", commutative=False)
memory = sp.Symbol("y", commutative=False)
delta = sp.Symbol("delta", positive=True)
AT_REST = {delta: sp.S.Zero}  # nothing is perturbed

# Su's letters for the matrices of attention and the plain feed-forward
_SHORT = {"query": "q", "key": "k", "value": "v", "output": "o", "fc1": "1", "fc2": "2"}


def gain(matrix: str) -> sp.Symbol:
    """The scalar magnitude λ of a matrix."""
    return sp.Symbol(f"lambda_{_SHORT.get(matrix, matrix)}", positive=True)


def direction(matrix: str) -> sp.Symbol:
    """The matrix U that carries the magnitude λ: W = λU."""
    return sp.Symbol(f"U_{_SHORT.get(matrix, matrix)}", commutative=False)


def weight(matrix: str) -> sp.Symbol:
    """The matrix W itself, magnitude and direction together."""
    return sp.Symbol(f"W_{_SHORT.get(matrix, matrix)}", commutative=False)


def transverse(parameter: str) -> sp.Symbol:
    """A generic direction V of order one in which a parameter is perturbed."""
    return sp.Symbol(f"V_{_SHORT.get(parameter, parameter)}", commutative=False)


@dataclass(frozen=True)
class ProbedBranch(OperatorAlgebra[sp.Expr]):
    """The algebra that reads a branch formula with probed matrices; biases start at zero."""

    sublayer: Sublayer
    perturbed: str | None = None  # the parameter that is moved along its transverse direction
    argument: sp.Expr = x  # what the branch is fed with
    names: dict[str, sp.Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names.update({"x": self.argument, "memory": memory})
        for matrix in self.sublayer.matrices:
            self.names[matrix.name] = gain(matrix.name) * direction(matrix.name)
        for vector in self.sublayer.vectors:
            self.names[vector.name] = sp.Integer(0)
        if self.perturbed is not None:
            move = delta * transverse(self.perturbed)
            vectors = {v.name for v in self.sublayer.vectors}
            self.names[self.perturbed] += ONES * move if self.perturbed in vectors else move

    def number(self, value: Fraction) -> sp.Expr:
        return rational(value)

    def name(self, name: str) -> sp.Expr:
        return self.names[name]

    def power(self, base: sp.Expr, exponent: Fraction) -> sp.Expr:
        return base ** rational(exponent)

    def call(self, function: str, arguments: tuple[sp.Expr, ...]) -> sp.Expr:
        maps = {
            "phi": Activation,
            "softmax": Softmax,
            "norm": Normalise,
            "T": Transpose,
            "hadamard": Hadamard,
        }
        return maps[function](*(sp.expand_mul(a) for a in arguments))


def branch(sublayer: Sublayer, perturbed: str | None = None, argument: sp.Expr = x) -> sp.Expr:
    """The branch G(argument) as a SymPy expression in λ's, U's (and δ, V)."""
    algebra = ProbedBranch(sublayer, perturbed, argument)
    return sp.expand_mul(fold(sublayer.expression.root, algebra))


def plain_branch(sublayer: Sublayer, argument: sp.Expr = x) -> sp.Expr:
    """The branch G(argument) in the matrices W themselves."""
    algebra = ProbedBranch(sublayer, None, argument)
    algebra.names.update({m.name: weight(m.name) for m in sublayer.matrices})
    return sp.expand_mul(fold(sublayer.expression.root, algebra))
