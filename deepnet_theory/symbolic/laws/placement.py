"""The law of a placement, derived from its residual equation.

The branch is written P·B, P the product of its gains and B a map of order one. The law says
how much the branch weighs against the identity path, how the sublayer's output responds to a
change of the branch, and how it responds to the norm's own gain and bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy as sp

from deepnet_theory.sizes.update import Update
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.norm import Norm
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.algebra.monomial import alpha, beta, in_sympy
from deepnet_theory.symbolic.algebra.nodes import Branch, Hadamard, Normalise, coefficient, split
from deepnet_theory.symbolic.laws.branch import AT_REST, branch, delta, gain, transverse, x

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
    placement: Placement,
    branch_of: Callable[[sp.Expr], sp.Expr],
    *,
    probe_gain: bool = False,
    probe_bias: bool = False,
    rescale: bool = True,
) -> sp.Expr:
    """The sublayer's output as a SymPy expression.

    ``rescale`` divides a norm's argument by the scalar of its identity path.
    """

    def norm(of: sp.Expr) -> sp.Expr:
        argument = sp.expand_mul(of)
        value = Normalise(_unit_identity(argument) if rescale else argument)
        if probe_gain:
            value += delta * Hadamard(value, transverse("gain"))
        if probe_bias:
            value += delta * transverse("bias")
        return value

    names, functions = {"x": x, "alpha": alpha}, {"branch": branch_of, "norm": norm}
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
    of the branch; ``norm_gain``, ``norm_bias``: of the output to the norms' parameters.
    """

    weight: sp.Expr
    response: sp.Expr
    norm_gain: sp.Expr
    norm_bias: sp.Expr
    has_alpha: bool
    feeds_beta: bool  # whether the forward pass sees the gains
    stream: Any  # what a sublayer multiplies the stream by; None where it ends in a norm

    @property
    def normalised(self) -> bool:
        """Whether every sublayer ends in a norm, so that the stream keeps its size."""
        return self.stream is None


@cache
def placement_law(placement: Placement) -> PlacementLaw:
    """Derive the law of a placement.

    Raises :class:`Refusal` where the equation has no identity path beside the branch.
    """
    weight = _branch_weight(placement)
    moved = residual(placement, lambda y: P * Branch(y) + delta * H)
    gain = residual(placement, lambda y: P * Branch(y), probe_gain=True)
    bias = residual(placement, lambda y: P * Branch(y), probe_bias=True)
    return PlacementLaw(
        weight=weight,
        response=_at_rest(moved),
        norm_gain=_at_rest(gain),
        norm_bias=_at_rest(bias),
        has_alpha="alpha" in placement.expression.names,
        feeds_beta=weight.has(P),
        stream=_stream(placement),
    )


def _stream(placement: Placement) -> sp.Expr:
    """The coefficient of x in the sublayer's output, None where x stands inside norms alone."""
    return _identity(residual(placement, lambda y: P * Branch(y)))


def _at_rest(expression: sp.Expr) -> sp.Expr:
    """The scalar of the derivative in δ at δ = 0; the largest where several terms differ."""
    derivative = sp.expand_mul(sp.diff(expression, delta).xreplace(AT_REST))
    scalars = {split(term)[0] for term in sp.Add.make_args(derivative)}
    if len(scalars) == 1:
        return scalars.pop()
    # a norm's parameter may act on several paths (sandwich): the path of weight 1 or 1/α leads
    without = [s for s in scalars if not s.has(P)]
    leading = [s for s in without if not s.free_symbols] or without
    if len(leading) == 1:
        return leading[0]
    return coefficient(derivative)


def _branch_weight(placement: Placement) -> sp.Expr:
    weight = weight_beside_identity(residual(placement, lambda y: P * Branch(y)))
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


# ---- What one optimizer step moves through each parameter of a sublayer ----


# Roles whose parameters start at zero: the expression of an update of degree q > 0 in θ gives
# them no step at all; libraries then take the ratio as 1, which is degree 0, as done here.
STARTS_AT_ZERO = frozenset(
    {Role.NORM_BIAS, Role.OUTPUT_BIAS, Role.INNER_BIAS, Role.QUERY_BIAS, Role.KEY_BIAS}
)


@dataclass(frozen=True)
class Term:
    """One parameter: the size of its gradient and of itself, in α and β."""

    name: str
    role: Role
    gradient: sp.Expr
    size: sp.Expr

    def increment(self, degrees: Update) -> sp.Expr:
        """γ^{1+p} |θ|^q, the change of the output by one step in units of η."""
        q = sp.Integer(0) if self.role in STARTS_AT_ZERO else degrees.q
        if self.gradient == 0:
            return sp.Integer(0)
        return self.gradient ** (1 + degrees.p) * self.size**q

    def update(self, degrees: Update) -> sp.Expr:
        """γ^p |θ|^q, the size of the step itself in units of η."""
        q = sp.Integer(0) if self.role in STARTS_AT_ZERO else degrees.q
        return self.gradient**degrees.p * self.size**q


def at_common_gains(sublayer: Sublayer) -> dict[sp.Symbol, sp.Expr]:
    """Every scaled gain β, every other 1."""
    return {gain(m.name): beta for m in sublayer.scaled} | {
        gain(m.name): sp.Integer(1) for m in sublayer.unscaled
    }


@cache
def gains_product(sublayer: Sublayer) -> sp.Expr:
    """P: the scalar of the whole branch, with its scaled gains β and its unscaled ones 1."""
    return coefficient(branch(sublayer)).xreplace(at_common_gains(sublayer))


def _through(sublayer: Sublayer, parameter: str) -> sp.Expr:
    """What a transverse change of a parameter is multiplied by on its way through the branch."""
    moved = sp.expand_mul(branch(sublayer, parameter).diff(delta).xreplace(AT_REST))
    return coefficient(moved).xreplace(at_common_gains(sublayer))


def branch_weight(sublayer: Sublayer, law: PlacementLaw) -> sp.Expr:
    """r: the branch's weight against the identity path."""
    return law.weight.xreplace({P: gains_product(sublayer)})


@cache
def terms(sublayer: Sublayer, law: PlacementLaw, norm: Norm | None = None) -> tuple[Term, ...]:
    """The terms of a sublayer's matrices and vectors, and of its norm where one is given.

    The gradients come from transverse probes W = λU + δV: where the branch is normalised, the
    radial probe ∂/∂λ vanishes identically and says nothing of the gradient.
    """
    return tuple(_terms(sublayer, law, norm))


def _terms(sublayer: Sublayer, law: PlacementLaw, norm: Norm | None) -> Iterator[Term]:
    response = law.response.xreplace({P: gains_product(sublayer)})
    for parameter in sublayer.parameters:
        through = _through(sublayer, parameter.name)
        size = beta if parameter.role is Role.SCALED else sp.Integer(1)
        yield Term(parameter.name, parameter.role, response * through, size)
    if norm is not None:
        product = gains_product(sublayer)
        yield Term("norm_gain", Role.NORM_GAIN, law.norm_gain.xreplace({P: product}), sp.Integer(1))
        if norm.bias:
            yield Term(
                "norm_bias", Role.NORM_BIAS, law.norm_bias.xreplace({P: product}), sp.Integer(1)
            )


def relative_update(sublayer: Sublayer, law: PlacementLaw, degrees: Update) -> sp.Expr:
    """γ^p |θ|^{q-1}: what a step makes of a scaled matrix over the matrix, in units of η."""
    scaled = next(t for t in terms(sublayer, law) if t.role is Role.SCALED)
    return scaled.update(degrees) / scaled.size
