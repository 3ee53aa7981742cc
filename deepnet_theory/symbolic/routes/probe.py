"""The probe route: derivatives in the scalar magnitudes, their orders, and the increments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import sympy as sp

from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.sublayer import Role, Sublayer
from deepnet_theory.symbolic.algebra.nodes import coefficient
from deepnet_theory.symbolic.algebra.symbols import alpha, beta, eta
from deepnet_theory.symbolic.laws.branch import AT_REST, delta, gain
from deepnet_theory.symbolic.laws.explicit_matrices import TOLERANCE, Witness, distance
from deepnet_theory.symbolic.laws.optimizer import Degrees, entrywise
from deepnet_theory.symbolic.laws.parameters import Term, terms
from deepnet_theory.symbolic.laws.placement import PlacementLaw, probed
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import Check, Step

upstream = sp.Symbol("L_x", positive=True)  # |∂L/∂x_{l+1}|
jacobian = sp.Symbol("J", positive=True)  # |∂x_{l+1}/∂z_{l+1}|
unit = sp.Symbol("u", positive=True)  # |φ(xU)U| and the like, of order one

_TITLES = {
    "attention": ("Self-attention gradient", "Su, §Self-attention"),
    "cross": ("Cross-attention gradient", "derived here, as Su, §Self-attention"),
    "ffn": ("Feed-forward gradient", "Su, §Feed-forward gradient"),
}


def heading(sublayer: Sublayer) -> tuple[str, str]:
    """The section and the source of a sublayer's steps."""
    return _TITLES.get(sublayer.name, (f"{sublayer.summary} gradient", "derived here"))


def loss_increment(optimizer: Optimizer) -> Step:
    r"""ΔL ≈ ⟨∇L, Δθ⟩ for the optimizer's own step, on two entries.

    Source: Su, §Increment explosion and §Multiple optimizers.
    """
    g = sp.symbols("g_1 g_2", real=True, nonzero=True)
    theta = sp.symbols("theta_1 theta_2", real=True, nonzero=True)
    update = entrywise(optimizer, eta, g, theta)
    product = sum(a * b for a, b in zip(g, update, strict=True))
    return Step(
        name="loss-increment",
        section="The increment",
        lhs=product,
        rhs=_tidy(product, g),
        relation=Relation.EQUAL,
        because=(
            "to first order the loss changes by <gradient, update>; here for a parameter of two "
            "entries, with the optimizer's own update"
        ),
        source="Su, §Increment explosion; §Multiple optimizers",
        assumptions=("linear-step",),
        establishes=(*g, *theta),
        checks=(Check("equal at exact entries of every sign", _equal_at_entries(g, theta)),),
    )


_READABLE = 100


def _terms_multiplied_out(expression: Any) -> int:
    inner = [_terms_multiplied_out(part) for part in expression.args]
    if expression.is_Add:
        return sum(inner)
    return math.prod(inner) if expression.is_Mul else 1


def _tidy(product: Any, entries: Any) -> Any:
    """g·sign(g) written |g|, and common factors taken out, where that is no more to read."""
    if _terms_multiplied_out(product) > _READABLE:
        return product
    absolute = [sp.Symbol(f"a_{i}", positive=True) for i, _ in enumerate(entries)]
    unsigned = sp.expand_mul(product)
    for entry, size in zip(entries, absolute, strict=True):
        unsigned = unsigned.xreplace({sp.sign(entry): size / entry})
    collected = sp.factor_terms(sp.expand_mul(unsigned))
    return collected.xreplace({a: sp.Abs(g) for a, g in zip(absolute, entries, strict=True)})


def _equal_at_entries(g: Any, theta: Any) -> Any:
    points = ((3, -2, 5, 7), (-1, -4, 2, -3), (2, 5, -1, 6))

    def holds(step: Step) -> bool:
        for point in points:
            values = dict(zip((*g, *theta), map(sp.Integer, point), strict=True))
            values[eta] = sp.Rational(2, 7)
            if abs(sp.N((step.lhs - step.rhs).xreplace(values), 30)) > sp.Float("1e-20"):
                return False
        return True

    return holds


def forward_step(sublayer: Sublayer, placement: Placement) -> Step:
    """z of the sublayer with every matrix written W = λU."""
    section, source = heading(sublayer)
    z = sp.Symbol(f"z_{sublayer.name.replace('-', '')}", commutative=False)

    def agrees(step: Step) -> bool:
        witness = Witness(sublayer, placement)
        return distance(witness.evaluate(step.rhs, alpha), witness.inner({})) < TOLERANCE

    return Step(
        name=f"probe-{sublayer.name}",
        section=section,
        lhs=z,
        rhs=probed(placement, sublayer),
        relation=Relation.EQUAL,
        because="every matrix is its magnitude times a direction, W = lambda*U",
        source=source,
        assumptions=("homogeneous-activation",) if "phi" in sublayer.branch else (),
        establishes=(z,),
        checks=(Check("explicit matrices", agrees),),
    )


def derivative_steps(sublayer: Sublayer, placement: Placement) -> Iterator[Step]:
    """∂z/∂λ for every matrix: taken by SymPy, checked by a finite difference."""
    section, source = heading(sublayer)
    z = probed(placement, sublayer)
    witness = Witness(sublayer, placement)
    for matrix in sublayer.matrices:
        magnitude = gain(matrix.name)
        derivative = sp.expand_mul(sp.diff(z, magnitude))
        blind = derivative == 0
        yield Step(
            name=f"radial-{sublayer.name}-{matrix.name}",
            section=section,
            lhs=sp.Derivative(z, magnitude) if not blind else sp.Integer(0),
            rhs=derivative,
            relation=Relation.EQUAL,
            because=(
                f"the scalar probe of {matrix.name}"
                if not blind
                else f"z does not depend on {magnitude}: the norm removes it, so that the radial "
                f"probe of {matrix.name} is blind and a transverse one is needed"
            ),
            source=source,
            uses=(f"probe-{sublayer.name}",),
            checks=(Check("finite difference", _finite_difference(witness, magnitude, None)),),
        )
        z_moved = probed(placement, sublayer, matrix.name)
        moved = sp.expand_mul(sp.diff(z_moved, delta).xreplace(AT_REST))
        if blind or coefficient(moved) != coefficient(derivative):
            yield Step(
                name=f"transverse-{sublayer.name}-{matrix.name}",
                section=section,
                lhs=sp.Derivative(z_moved, delta),
                rhs=moved,
                relation=Relation.EQUAL,
                because=f"a transverse probe of {matrix.name}: W = lambda*U + delta*V, delta = 0",
                source="derived here",
                uses=(f"probe-{sublayer.name}",),
                checks=(
                    Check("finite difference", _finite_difference(witness, delta, matrix.name)),
                ),
            )


def _finite_difference(witness: Witness, symbol: Any, perturbed: str | None) -> Any:
    def agrees(step: Step) -> bool:
        numeric = witness.derivative(symbol, perturbed)
        if step.rhs == 0:
            return max(abs(entry) for row in numeric for entry in row) < TOLERANCE
        return distance(witness.evaluate(step.rhs, alpha), numeric) < TOLERANCE

    return agrees


def order_steps(
    sublayer: Sublayer, placement: Placement, law: PlacementLaw
) -> Iterator[tuple[Term, Step]]:
    """The order of each matrix's gradient once all bounded factors are dropped."""
    section, source = heading(sublayer)
    z_at = {gain(m.name): beta for m in sublayer.scaled} | {
        gain(m.name): sp.Integer(1) for m in sublayer.unscaled
    }
    for term in terms(sublayer, law):
        if term.role not in (Role.SCALED, Role.UNSCALED):
            continue
        moved = sp.expand_mul(
            sp.diff(probed(placement, sublayer, term.name), delta).xreplace(AT_REST)
        )
        scalar = coefficient(moved).xreplace(z_at)
        attention = "softmax" in sublayer.branch
        yield (
            term,
            Step(
                name=f"gradient-{sublayer.name}-{term.name}",
                section=section,
                lhs=upstream * jacobian * unit * scalar,
                rhs=term.gradient,
                relation=Relation.ORDER,
                because=(
                    "the chain rule: the upstream gradient, the norm's Jacobian and the branch "
                    "with its gains taken out are of order one; all scaled gains are beta"
                    + (
                        ", the softmax's differential is bounded"
                        if term.role is Role.UNSCALED
                        else ""
                    )
                ),
                source=source,
                uses=(f"probe-{sublayer.name}", f"radial-{sublayer.name}-{term.name}"),
                assumptions=(
                    "bounded-upstream-gradient",
                    "bounded-norm-jacobian",
                    "unit-branch",
                    "unit-activations",
                    "equal-gains",
                    *(("attention-keeps-magnitude",) if attention else ()),
                ),
                bounded=(upstream, jacobian, unit),
            ),
        )


def increment_step(sublayer: Sublayer, term: Term, d: Degrees, name: str) -> Step:
    """One matrix's share of the change of the output: γ·|Δθ|, |Δθ| = η γ^p |θ|^q."""
    constant = sp.Symbol("c", positive=True)
    return Step(
        name=name,
        section="The balance",
        lhs=constant * term.gradient * (eta * term.update(d)),
        rhs=eta * term.increment(d),
        relation=Relation.ORDER,
        because=(
            f"the output changes by the gradient's size times the update's, eta*|g|^({d.p})*"
            f"|theta|^({d.q}) by the degrees; the constant is dropped"
        ),
        source="Su, §Increment explosion; §Multiple optimizers",
        uses=("degrees", f"gradient-{sublayer.name}-{term.name}"),
        bounded=(constant,),
        establishes=(constant,),
    )
