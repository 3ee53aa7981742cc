"""What one optimizer step moves through each parameter of a sublayer.

Through parameter i the output changes by γ·|Δθ| = η γ^{1+p} |θ|^q, where γ is the size of its
gradient. All scaled matrices of a branch share the gain β; unscaled matrices have gain 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import sympy as sp

from deepnet_theory.spec.norm import Norm
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.algebra.nodes import coefficient
from deepnet_theory.symbolic.algebra.symbols import beta
from deepnet_theory.symbolic.laws.branch import AT_REST, branch, delta, gain
from deepnet_theory.symbolic.laws.optimizer import Degrees
from deepnet_theory.symbolic.laws.placement import P, PlacementLaw

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

    def increment(self, degrees: Degrees) -> sp.Expr:
        """γ^{1+p} |θ|^q, the change of the output by one step in units of η."""
        q = sp.Integer(0) if self.role in STARTS_AT_ZERO else degrees.q
        if self.gradient == 0:
            return sp.Integer(0)
        return self.gradient ** (1 + degrees.p) * self.size**q

    def update(self, degrees: Degrees) -> sp.Expr:
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


def relative_update(sublayer: Sublayer, law: PlacementLaw, degrees: Degrees) -> sp.Expr:
    """γ^p |θ|^{q-1}: what a step makes of a scaled matrix over the matrix, in units of η."""
    scaled = next(t for t in terms(sublayer, law) if t.role is Role.SCALED)
    return scaled.update(degrees) / scaled.size
