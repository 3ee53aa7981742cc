r"""The laws of a branch and of a placement, derived from their formulas.

A branch is probed: every matrix is W = λU. In a residual
equation it is written P·B, P the product of its gains and B a map of order one; the law says how
much the branch weighs against the identity path, and how the sublayer's output responds to a change
of the branch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any

import numpy as np
import sympy as sp

from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.placement import placement as placement_named
from deepnet_theory.definitions.sublayer import Role, Sublayer
from deepnet_theory.definitions.sublayer import sublayer as sublayer_named
from deepnet_theory.proof.algebra import (
    Activation,
    BranchMap,
    Hadamard,
    Normalise,
    Softmax,
    Transpose,
    alpha,
    beta,
    coefficient,
    in_sympy,
    split,
)
from deepnet_theory.proof.step import Check, Step
from deepnet_theory.proof.witness import (
    TOLERANCE,
    Array,
    Witness,
    distance,
    leaky_relu,
    normalise,
    product,
    softmax,
)
from deepnet_theory.sizes.update import Update

x = sp.Symbol("x", commutative=False)
memory = sp.Symbol("y", commutative=False)

# Su's letters for the matrices of attention and the plain feed-forward
_SHORT = {"query": "q", "key": "k", "value": "v", "output": "o", "fc1": "1", "fc2": "2"}


def gain(matrix: str) -> sp.Symbol:
    """The scalar magnitude λ of a matrix."""
    return sp.Symbol(f"lambda_{_SHORT.get(matrix, matrix)}", positive=True)


def direction(matrix: str) -> sp.Symbol:
    """The matrix U that carries the magnitude λ: W = λU."""
    return sp.Symbol(f"U_{_SHORT.get(matrix, matrix)}", commutative=False)


_MAPS: dict[str, Callable[..., sp.Expr]] = {
    "phi": Activation,
    "softmax": Softmax,
    "norm": lambda argument, *_: Normalise(argument),  # its gain starts at 1, its bias at 0
    "T": Transpose,
    "hadamard": Hadamard,
}


def _expanded(function: Callable[..., sp.Expr]) -> Callable[..., sp.Expr]:
    return lambda *arguments: function(*map(sp.expand_mul, arguments))


def branch(sublayer: Sublayer, argument: sp.Expr = x) -> sp.Expr:
    """The branch G(argument) as a SymPy expression in λ's and U's, vectors as they start."""
    names = {"x": argument, "memory": memory}
    names |= {m.name: gain(m.name) * direction(m.name) for m in sublayer.matrices}
    names |= {v.name: sp.Integer(v.role is Role.NORM_GAIN) for v in sublayer.vectors}
    maps = {name: _expanded(function) for name, function in _MAPS.items()}
    return sp.expand_mul(in_sympy(sublayer.expression, names, maps))


# ---- a residual equation ----

P = sp.Symbol("P", positive=True)  # the product of a branch's gains


def _unit_identity(argument: sp.Expr) -> sp.Expr:
    """The argument divided by the scalar of its identity path (a norm does not see it)."""
    scalar = _identity(argument)
    if scalar is None:  # no identity path: a branch alone
        still = sp.Add.make_args(sp.expand_mul(argument))
        return sp.expand_mul(argument / split(still[0])[0])
    return x + sp.expand_mul((argument - sp.expand_mul(scalar * x)) / scalar)


def _identity(output: Any) -> Any:
    """The coefficient of x in a sum, None where x stands inside maps alone."""
    scalars = [split(t)[0] for t in sp.Add.make_args(sp.expand_mul(output)) if split(t)[1] == x]
    return sp.Add(*scalars) if scalars else None


def residual(
    placement: Placement, branch_of: Callable[[sp.Expr], sp.Expr], *, rescale: bool = True
) -> sp.Expr:
    """The sublayer's output as a SymPy expression.

    ``rescale`` divides a norm's argument by the scalar of its identity path.
    """

    def norm(argument: sp.Expr) -> sp.Expr:
        argument = sp.expand_mul(argument)
        return Normalise(_unit_identity(argument) if rescale else argument)

    names = {"x": x, "alpha": alpha}
    functions = {"branch": branch_of, "norm": norm}
    return sp.expand_mul(in_sympy(placement.expression, names, functions))


def probed(placement: Placement, sublayer: Sublayer) -> sp.Expr:
    """z of a sublayer, probed: what the outermost norm is applied to, or the output."""
    value = residual(placement, lambda argument: branch(sublayer, argument))
    return value.args[0] if isinstance(value, Normalise) else value


@cache
def branch_weight(placement: Placement) -> sp.Expr:
    """The weight of a branch P·B against the identity path, in P and α.

    Divided by P it is the response of the output to a change of the branch. Raises
    :class:`Refusal` where the equation has no identity path beside the branch.
    """
    weight = weight_beside_identity(residual(placement, lambda y: P * BranchMap(y)))
    if weight is None or weight.could_extract_minus_sign():
        raise Refusal(
            f"no law for the placement {placement.name!r}: its equation {placement.equation!r} is "
            "not an identity path plus one branch"
        )
    return weight


def weight_beside_identity(output: sp.Expr) -> sp.Expr | None:
    """The scalar of the one term beside the identity path, in the sum that holds both."""
    for candidate in (output, *output.atoms(Normalise)):
        total = candidate.args[0] if isinstance(candidate, Normalise) else candidate
        others = [t for t in sp.Add.make_args(total) if split(t)[1] != x]
        identity = _identity(total)
        if identity is not None and len(others) == 1:
            return split(others[0])[0] / identity
    return None


# ---- What one optimizer step moves through a sublayer's scaled matrices ----


def at_common_gains(sublayer: Sublayer) -> dict[sp.Symbol, sp.Expr]:
    """Every scaled gain β, every other 1."""
    return {gain(m.name): beta for m in sublayer.scaled} | {
        gain(m.name): sp.Integer(1) for m in sublayer.unscaled
    }


@cache
def gains_product(sublayer: Sublayer) -> sp.Expr:
    """P: the scalar of the whole branch, with its scaled gains β and its unscaled ones 1."""
    alone = coefficient(branch(sublayer)).xreplace(at_common_gains(sublayer))
    return alone / sp.sqrt(sublayer.chosen)


def relative_update(sublayer: Sublayer, placement: Placement, degrees: Update) -> sp.Expr:
    """γ^p |θ|^{q-1}: an update of a scaled matrix over the matrix, in units of η.

    γ is the response of the output to a move across W = λU: that of the branch over λ, of experts
    1/E as much.
    """
    weight = branch_weight(placement).xreplace({P: gains_product(sublayer)})
    gradient = weight * sp.sqrt(sublayer.chosen) / beta / sublayer.experts
    return gradient**degrees.p * beta ** (degrees.q - 1)


# ---- SymPy's expressions on explicit matrices, node by node: a second route to every step ----


def any_branch(a: Array) -> Array:
    """A branch of no particular form, for statements that hold whatever the branch is."""
    value: Array = np.tanh(a) + 0.3 * np.roll(a, 1, axis=-1) ** 2
    return value


_ON_ARRAYS: dict[type[sp.Expr], Callable[..., Array]] = {
    BranchMap: any_branch,
    Activation: leaky_relu,
    Softmax: softmax,
    Normalise: normalise,
    Transpose: np.transpose,
    Hadamard: np.multiply,
}


def values_of(witness: Witness) -> dict[sp.Symbol, Any]:
    """What the symbols of a probed sublayer are in a witness."""
    stream, context = witness.stream
    values: dict[sp.Symbol, Any] = {x: stream, memory: context, alpha: witness.alpha}
    for name, size in witness.gains.items():
        values |= {gain(name): size, direction(name): witness.directions[name][0]}
    return values


def value_of(node: sp.Expr, values: Mapping[sp.Symbol, Any]) -> Any:
    """A SymPy expression of nodes, scalars and matrix symbols, at the values of its symbols."""

    def value(item: sp.Expr) -> Any:
        if item.is_Number:
            return float(item)
        if item.is_Symbol:
            return values[item]
        if item.is_Add:
            return reduce(operator.add, map(value, item.args))
        if item.is_Mul:
            return reduce(product, map(value, item.args))
        if item.is_Pow:
            return value(item.base) ** float(item.exp)
        return _ON_ARRAYS[type(item)](*(value(a) for a in item.args))

    return value(node)


def _agree(step: Step) -> bool:
    witness = Witness.drawn(sublayer_named("ffn"), placement_named("post-ln"))
    at = {**values_of(witness), P: 0.7}
    return distance(*(value_of(side, at) for side in (step.lhs, step.rhs))) < TOLERANCE


AGREE = Check("explicit matrices with an arbitrary branch", _agree)
