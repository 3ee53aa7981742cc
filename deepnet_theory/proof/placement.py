r"""The laws of a branch and of a placement, derived from their formulas.

A branch is probed: every matrix is W = λU, or W = λU + hV for a transverse probe. In a residual
equation it is written P·B, P the product of its gains and B a map of order one; the law says how
much the branch weighs against the identity path, and how the sublayer's output responds to a change
of the branch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    ONES,
    Activation,
    Branch,
    DirectionalDifferential,
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
    TOKENS,
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
delta = sp.Symbol("h", positive=True)  # how far a matrix, or a branch, is moved
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
    """A generic direction V of order one; a parameter is perturbed along it."""
    return sp.Symbol(f"V_{_SHORT.get(parameter, parameter)}", commutative=False)


def _normalise(argument: sp.Expr, gain: Any = 1, bias: Any = 0) -> sp.Expr:
    normed = Normalise(argument)
    return normed + (0 if gain == 1 else Hadamard(normed, gain - 1)) + bias


_MAPS: dict[str, Callable[..., sp.Expr]] = {
    "phi": Activation,
    "softmax": Softmax,
    "norm": _normalise,
    "T": Transpose,
    "hadamard": Hadamard,
}


def _expanded(function: Callable[..., sp.Expr]) -> Callable[..., sp.Expr]:
    return lambda *arguments: function(*map(sp.expand_mul, arguments))


def branch(
    sublayer: Sublayer,
    perturbed: str | None = None,
    argument: sp.Expr = x,
    matrix: Callable[[str], sp.Expr] = lambda name: gain(name) * direction(name),
) -> sp.Expr:
    """The branch G(argument) as a SymPy expression in λ's, U's (and h, V); biases start at zero.

    The gain of a norm within it is 1; moved, it is a factor 1 + hV of every token.

    ``perturbed`` is the parameter that is moved along its transverse direction, ``matrix`` what
    stands for a matrix.
    """
    names = {"x": argument, "memory": memory}
    names |= {m.name: matrix(m.name) for m in sublayer.matrices}
    names |= {v.name: sp.Integer(v.role is Role.NORM_GAIN) for v in sublayer.vectors}
    if perturbed is not None:
        move = delta * transverse(perturbed)
        names[perturbed] += ONES * move if names[perturbed].is_number else move
    maps = {name: _expanded(function) for name, function in _MAPS.items()}
    return sp.expand_mul(in_sympy(sublayer.expression, names, maps))


# ---- a residual equation ----

P = sp.Symbol("P", positive=True)  # the product of a branch's gains
H = sp.Symbol("H", commutative=False)  # a change of the branch, of order one


def _unit_identity(argument: sp.Expr) -> sp.Expr:
    """The argument divided by the scalar of its identity path (a norm does not see it)."""
    scalar = _identity(argument.xreplace(AT_REST))
    if scalar is None:  # no identity path: a branch alone
        still = sp.Add.make_args(sp.expand_mul(argument.xreplace(AT_REST)))
        return sp.expand_mul(argument / split(still[0])[0])
    return x + sp.expand_mul((argument - sp.expand_mul(scalar * x)) / scalar)


def _identity(output: Any) -> Any:
    """The coefficient of x in a sum, None where x stands inside maps alone."""
    scalars = [split(t)[0] for t in sp.Add.make_args(sp.expand_mul(output)) if split(t)[1] == x]
    return sp.Add(*scalars) if scalars else None


def residual(
    placement: Placement, branch_of: Callable[[sp.Expr], sp.Expr], *, rescale: bool = True,
    learnt: Callable[[sp.Expr], sp.Expr] = lambda start: start,
) -> sp.Expr:  # fmt: skip
    """The sublayer's output as a SymPy expression.

    ``rescale`` divides a norm's argument by the scalar of its identity path; ``learnt`` is what
    stands for a learnt multiplier, which starts at its argument.
    """

    def norm(argument: sp.Expr) -> sp.Expr:
        argument = sp.expand_mul(argument)
        return Normalise(_unit_identity(argument) if rescale else argument)

    names = {"x": x, "alpha": alpha}
    functions = {"branch": branch_of, "norm": norm, "learnt": learnt}
    return sp.expand_mul(in_sympy(placement.expression, names, functions))


def inside(placement: Placement, branch_of: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """z: what the outermost norm is applied to (identity path at weight 1), or the output."""
    value = residual(placement, branch_of)
    return value.args[0] if isinstance(value, Normalise) else value


def probed(placement: Placement, sublayer: Sublayer, perturbed: str | None = None) -> sp.Expr:
    """z of a sublayer with its real branch, probed."""
    return inside(placement, lambda argument: branch(sublayer, perturbed, argument))


@dataclass(frozen=True)
class PlacementLaw:
    """Scalars, in P and α.

    ``weight``: the branch against the identity path; ``response``: of the output to a change
    of the branch; ``stream``: what a sublayer multiplies the stream by, None where it ends in a
    norm.
    """

    weight: sp.Expr
    response: sp.Expr
    has_alpha: bool
    stream: Any

    @property
    def normalised(self) -> bool:
        """Whether every sublayer ends in a norm, so that the stream keeps its size."""
        return self.stream is None


@cache
def placement_law(placement: Placement) -> PlacementLaw:
    """Derive the law of a placement.

    Raises :class:`Refusal` where the equation has no identity path beside the branch.
    """
    output = residual(placement, lambda y: P * Branch(y))
    weight = weight_beside_identity(output)
    if weight is None or weight.could_extract_minus_sign():
        raise Refusal(
            f"no law for the placement {placement.name!r}: its equation {placement.equation!r} is "
            "not an identity path plus one branch"
        )
    moved = residual(placement, lambda y: P * Branch(y) + delta * H)
    return PlacementLaw(
        weight=weight,
        response=coefficient(sp.diff(moved, delta).xreplace(AT_REST)),
        has_alpha="alpha" in placement.expression.names,
        stream=_identity(output),
    )


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


@cache
def gradients(sublayer: Sublayer, law: PlacementLaw) -> tuple[sp.Expr, ...]:
    """γ of every scaled matrix, how the output responds to it, in α and β; of experts 1/E of that.

    From transverse probes W = λU + hV: where the branch is normalised, the radial probe ∂/∂λ
    vanishes identically and says nothing of the gradient.
    """
    gains = at_common_gains(sublayer)
    response = law.response.xreplace({P: gains_product(sublayer)})
    response *= sp.Rational(1, sublayer.experts)
    return tuple(
        response * coefficient(branch(sublayer, matrix.name).diff(delta).xreplace(AT_REST))
        .xreplace(gains)
        for matrix in sublayer.scaled
    )  # fmt: skip


def relative_update(sublayer: Sublayer, law: PlacementLaw, degrees: Update) -> sp.Expr:
    """γ^p |θ|^{q-1}: what a step makes of a scaled matrix over the matrix, in units of η."""
    return gradients(sublayer, law)[0] ** degrees.p * beta ** (degrees.q - 1)


# ---- SymPy's expressions on explicit matrices, node by node: a second route to every step ----

STEP = 5e-5


def central_difference(f: Callable[[float], Array]) -> Array:
    """f′(0) to fourth order: (8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h."""
    near, far = f(STEP) - f(-STEP), f(2 * STEP) - f(-2 * STEP)
    slope: Array = (8.0 * near - far) / (12 * STEP)
    return slope


def any_branch(a: Array) -> Array:
    """A branch of no particular form, for statements that hold whatever the branch is."""
    value: Array = np.tanh(a) + 0.3 * np.roll(a, 1, axis=-1) ** 2
    return value


NodeMaps = Mapping[type[sp.Expr], Callable[..., Array]]
_ON_ARRAYS: NodeMaps = {
    Branch: any_branch,
    Activation: leaky_relu,
    Softmax: softmax,
    Normalise: normalise,
    Transpose: np.transpose,
    Hadamard: np.multiply,
}


def values_of(witness: Witness) -> dict[sp.Symbol, Any]:
    """What the symbols of a probed sublayer are in a witness."""
    stream, context = witness.stream
    values: dict[sp.Symbol, Any] = {x: stream, memory: context, alpha: witness.alpha, delta: 0.0}
    values[ONES] = np.ones((TOKENS, 1))
    for name, (start, sideways) in witness.directions.items():
        if name in witness.gains:
            values |= {gain(name): witness.gains[name], direction(name): start}
        values[transverse(name)] = sideways
    return values


def value_of(node: sp.Expr, values: Mapping[sp.Symbol, Any], maps: NodeMaps | None = None) -> Any:
    """A SymPy expression of nodes, scalars and matrix symbols, at the values of its symbols.

    ``maps`` are what stands for nodes of your own. Differentials are central differences here,
    not the witness's complex steps: two ways to a derivative.
    """
    known = {**_ON_ARRAYS, **(maps or {})}

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
        if isinstance(item, DirectionalDifferential):
            f = known[item.args[0].function]
            point, along = value(item.args[1]), value(item.args[2])
            return central_difference(lambda step: f(point + step * along))
        if isinstance(item, sp.Derivative):
            function, (symbol, _) = item.args
            return central_difference(
                lambda h: value_of(function, {**values, symbol: values[symbol] + h}, maps)
            )
        return known[type(item)](*(value(a) for a in item.args))

    return value(node)


def agree(values: Mapping[sp.Symbol, Any] | None = None) -> Check:
    """Both sides of a step in x, α and P, with an arbitrary branch, are one matrix."""

    def holds(step: Step) -> bool:
        witness = Witness.drawn(sublayer_named("ffn"), placement_named("post-ln"))
        at = {**values_of(witness), P: 0.7, **(values or {})}
        return distance(*(value_of(side, at) for side in (step.lhs, step.rhs))) < TOLERANCE

    return Check("explicit matrices", holds)
