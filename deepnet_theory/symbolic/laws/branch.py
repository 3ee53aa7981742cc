"""A branch formula with its matrices probed: W = λU, or W = λU + δV for a transverse probe."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from deepnet_theory.spec.sublayer import Sublayer
from deepnet_theory.symbolic.algebra.monomial import in_sympy
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


def transverse(parameter: str) -> sp.Symbol:
    """A generic direction V of order one in which a parameter is perturbed."""
    return sp.Symbol(f"V_{_SHORT.get(parameter, parameter)}", commutative=False)


_MAPS: dict[str, Callable[..., sp.Expr]] = {
    "phi": Activation,
    "softmax": Softmax,
    "norm": Normalise,
    "T": Transpose,
    "hadamard": Hadamard,
}


def _expanded(of: Callable[..., sp.Expr]) -> Callable[..., sp.Expr]:
    return lambda *arguments: of(*map(sp.expand_mul, arguments))


def branch(
    sublayer: Sublayer,
    perturbed: str | None = None,
    argument: sp.Expr = x,
    matrix: Callable[[str], sp.Expr] = lambda name: gain(name) * direction(name),
) -> sp.Expr:
    """The branch G(argument) as a SymPy expression in λ's, U's (and δ, V); biases start at zero.

    ``perturbed`` is the parameter that is moved along its transverse direction, ``matrix`` what
    stands for a matrix.
    """
    names = {"x": argument, "memory": memory}
    names |= {m.name: matrix(m.name) for m in sublayer.matrices}
    names |= {v.name: sp.Integer(0) for v in sublayer.vectors}
    if perturbed is not None:
        move = delta * transverse(perturbed)
        names[perturbed] += ONES * move if names[perturbed] == 0 else move
    maps = {name: _expanded(of) for name, of in _MAPS.items()}
    return sp.expand_mul(in_sympy(sublayer.expression, names, maps))
