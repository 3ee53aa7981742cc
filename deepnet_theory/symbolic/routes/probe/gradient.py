"""The gradient of each matrix: its probe, and its order once bounded factors are dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.sublayer import Matrix, Role, Sublayer
from deepnet_theory.symbolic.algebra.nodes import coefficient
from deepnet_theory.symbolic.algebra.symbols import alpha
from deepnet_theory.symbolic.laws.branch import AT_REST, delta, gain
from deepnet_theory.symbolic.laws.explicit_matrices import TOLERANCE, Witness, distance
from deepnet_theory.symbolic.laws.parameters import at_common_gains
from deepnet_theory.symbolic.laws.placement import probed
from deepnet_theory.symbolic.proof.step import ORDER_ONE, Check, Step
from deepnet_theory.symbolic.routes.probe.sizes import in_proportion, outside_norms, sizes
from deepnet_theory.symbolic.routes.probe.sublayer import section_of

upstream = sp.Symbol("L_x", positive=True)  # |∂L/∂x_{l+1}|
jacobian = sp.Symbol("J", positive=True)  # |∂x_{l+1}/∂z_{l+1}|
unit = sp.Symbol("B", positive=True)  # |B(x)|: |φ(xU)U| and the like, of order one


def derivative_steps(
    sublayer: Sublayer, placement: Placement, matrices: tuple[Matrix, ...]
) -> Iterator[Step]:
    """∂z/∂λ for each of the matrices: taken by SymPy, checked by a finite difference."""
    section = section_of(sublayer)
    z = probed(placement, sublayer)
    witness = Witness(sublayer, placement)
    for matrix in matrices:
        magnitude = gain(matrix.name)
        derivative = sp.expand_mul(sp.diff(z, magnitude))
        blind = derivative == 0
        yield section.equal(
            f"radial-{sublayer.name}-{matrix.name}",
            sp.Derivative(z, magnitude) if not blind else sp.Integer(0),
            derivative,
            (
                f"the scalar probe of {matrix.name}"
                if not blind
                else f"z does not depend on {magnitude}: the norm removes it, so that the radial "
                f"probe of {matrix.name} is blind and a transverse one is needed"
            ),
            uses=(f"probe-{sublayer.name}",),
            checks=(Check("finite difference", _finite_difference(witness, magnitude, None)),),
        )
        z_moved = probed(placement, sublayer, matrix.name)
        moved = sp.expand_mul(sp.diff(z_moved, delta).xreplace(AT_REST))
        if blind or coefficient(moved) != coefficient(derivative):
            yield section.equal(
                f"transverse-{sublayer.name}-{matrix.name}",
                sp.Derivative(z_moved, delta),
                moved,
                f"a transverse probe of {matrix.name}: W = lambda*U + delta*V, delta = 0",
                source="derived here",
                uses=(f"probe-{sublayer.name}",),
                checks=(
                    Check("finite difference", _finite_difference(witness, delta, matrix.name)),
                ),
            )


def _finite_difference(
    witness: Witness, symbol: sp.Symbol, perturbed: str | None
) -> Callable[[Step], bool]:
    def agrees(step: Step) -> bool:
        numeric = witness.derivative(symbol, perturbed)
        for side in (step.lhs.doit(), step.rhs):
            if side == 0:
                error = max(abs(entry) for row in numeric for entry in row)
            else:
                error = distance(witness.evaluate(side, alpha), numeric)
            if not error < TOLERANCE:
                return False
        return True

    return agrees


def gradient_step(sublayer: Sublayer, placement: Placement, matrices: tuple[Matrix, ...]) -> Step:
    """The order of the gradients of matrices of one role, once all bounded factors are dropped.

    Raises :class:`Refusal` where their orders differ, which no common gain can balance.
    """
    section = section_of(sublayer)
    common = at_common_gains(sublayer)
    orders, probes = set(), []
    for matrix in matrices:
        moved = sp.expand_mul(
            sp.diff(probed(placement, sublayer, matrix.name), delta).xreplace(AT_REST)
        )
        orders.add(coefficient(moved).xreplace(common))
        radial = sp.expand_mul(sp.diff(probed(placement, sublayer), gain(matrix.name)))
        blind = radial == 0 or coefficient(moved) != coefficient(radial)
        probes.append(f"{'transverse' if blind else 'radial'}-{sublayer.name}-{matrix.name}")
    if len(orders) != 1:
        names = ", ".join(matrix.name for matrix in matrices)
        raise Refusal(f"the gradients of {names} of {sublayer.name} are of different orders")
    scalar = orders.pop()
    unscaled = matrices[0].role is Role.UNSCALED
    alike = Check("the finite difference grows alike", _grows_alike(sublayer, placement, matrices))
    explicit = (alike,) if outside_norms(probed(placement, sublayer)) else ()
    return section.order(
        f"gradient-{sublayer.name}" + ("-unscaled" if unscaled else ""),
        upstream * jacobian * unit * scalar,
        scalar,
        (
            "the chain rule: the upstream gradient, the norm's Jacobian and the branch with its "
            "gains taken out are of order one; all scaled gains are beta"
            + (", the softmax's differential is bounded" if unscaled else "")
            + f": the size of the gradients of {', '.join(m.name for m in matrices)}"
        ),
        uses=tuple(probes),
        assumptions=(
            "bounded-upstream-gradient",
            "bounded-norm-jacobian",
            "unit-branch",
            "unit-activations",
            "equal-gains",
            *(("attention-keeps-magnitude",) if "softmax" in sublayer.branch else ()),
        ),
        bounded=(upstream, jacobian, unit),
        checks=(ORDER_ONE, *explicit),
    )


def _grows_alike(
    sublayer: Sublayer, placement: Placement, matrices: tuple[Matrix, ...]
) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        return all(
            in_proportion(
                sizes(sublayer, placement, lambda w, m=m: w.derivative(delta, m.name)),  # type: ignore[misc]
                step.rhs,
            )
            for m in matrices
        )

    return holds
