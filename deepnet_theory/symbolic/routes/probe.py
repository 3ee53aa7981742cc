"""The probe route: derivatives in the scalar magnitudes, their orders, and the increments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import sympy as sp

from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Matrix, Role, Sublayer
from deepnet_theory.symbolic.algebra.nodes import ONES, coefficient
from deepnet_theory.symbolic.algebra.symbols import alpha, beta, eta
from deepnet_theory.symbolic.laws.branch import (
    AT_REST,
    delta,
    direction,
    gain,
    memory,
    transverse,
    x,
)
from deepnet_theory.symbolic.laws.explicit_matrices import (
    TOLERANCE,
    Rows,
    Witness,
    combine,
    distance,
)
from deepnet_theory.symbolic.laws.optimizer import (
    degrees,
    degrees_of,
    homogeneity_step,
    step_length,
)
from deepnet_theory.symbolic.laws.placement import (
    P,
    placement_law,
    probed,
    scale_step,
    weight_beside_identity,
)
from deepnet_theory.symbolic.proof.relation import Relation
from deepnet_theory.symbolic.proof.step import ORDER_ONE, Check, Step
from deepnet_theory.symbolic.routes.route import Increment, Proved, Route

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


def forward_step(sublayer: Sublayer, placement: Placement, scaling: Step | None = None) -> Step:
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
        uses=() if scaling is None else (scaling.name,),
        assumptions=("homogeneous-activation",) if "phi" in sublayer.branch else (),
        establishes=(z,),
        checks=(Check("explicit matrices", agrees),),
    )


def derivative_steps(
    sublayer: Sublayer, placement: Placement, matrices: tuple[Matrix, ...]
) -> Iterator[Step]:
    """∂z/∂λ for each of the matrices: taken by SymPy, checked by a finite difference."""
    section, source = heading(sublayer)
    z = probed(placement, sublayer)
    witness = Witness(sublayer, placement)
    for matrix in matrices:
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


def gradient_step(sublayer: Sublayer, placement: Placement, matrices: tuple[Matrix, ...]) -> Step:
    """The order of the gradients of matrices of one role, once all bounded factors are dropped.

    Raises ``ValueError`` where their orders differ, which no common gain can balance.
    """
    section, source = heading(sublayer)
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
        raise ValueError(f"the matrices of {sublayer.name} have gradients of different orders")
    scalar = orders.pop()
    unscaled = matrices[0].role is Role.UNSCALED
    alike = Check("the finite difference grows alike", _grows_alike(sublayer, placement, matrices))
    explicit = (alike,) if _outside_norms(probed(placement, sublayer)) else ()
    return Step(
        name=f"gradient-{sublayer.name}" + ("-unscaled" if unscaled else ""),
        section=section,
        lhs=upstream * jacobian * unit * scalar,
        rhs=scalar,
        relation=Relation.ORDER,
        because=(
            "the chain rule: the upstream gradient, the norm's Jacobian and the branch with its "
            "gains taken out are of order one; all scaled gains are beta"
            + (", the softmax's differential is bounded" if unscaled else "")
            + f": the size of the gradients of {', '.join(m.name for m in matrices)}"
        ),
        source=source,
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


def at_common_gains(sublayer: Sublayer) -> dict[sp.Symbol, sp.Expr]:
    """Every scaled gain β, every other 1."""
    return {gain(m.name): beta for m in sublayer.scaled} | {
        gain(m.name): sp.Integer(1) for m in sublayer.unscaled
    }


def _outside_norms(z: sp.Expr) -> bool:
    """Whether the identity path is a term of z: what is added to it then scales exactly."""
    return x in sp.Add.make_args(z)


# (α, β) at which sizes of explicit matrices are compared: every power of either shows
_KNOBS = ((1.3, 0.7), (2.6, 0.7), (1.3, 1.4))


def _sizes(
    sublayer: Sublayer, placement: Placement, of: Callable[[Witness, dict[Any, float]], Rows]
) -> list[float]:
    """The Frobenius norm of something at the knobs, with explicit matrices."""
    found = []
    for residual, size in _KNOBS:
        witness = Witness(sublayer, placement)
        witness.alpha = residual
        gains = {gain(m.name): size for m in sublayer.scaled}
        gains |= {gain(m.name): 1.0 for m in sublayer.unscaled}
        witness.values.update(gains)
        rows = of(witness, {})
        found.append(math.sqrt(sum(p * p for row in rows for p in row)))
    return found


def _in_proportion(measured: list[float], stated: sp.Expr) -> bool:
    """Whether sizes at the knobs are in the ratios that an expression in α and β states."""
    values = [float(stated.subs({alpha: a, beta: b})) for a, b in _KNOBS]
    ratios = [m / v for m, v in zip(measured, values, strict=True)]
    return all(abs(ratio / ratios[0] - 1) < TOLERANCE for ratio in ratios)


def _grows_alike(
    sublayer: Sublayer, placement: Placement, matrices: tuple[Matrix, ...]
) -> Callable[[Step], bool]:
    def holds(step: Step) -> bool:
        return all(
            _in_proportion(
                _sizes(sublayer, placement, lambda w, _, m=m: w.derivative(delta, m.name)),  # type: ignore[misc]
                step.rhs,
            )
            for m in matrices
        )

    return holds


def weight_step(sublayer: Sublayer, placement: Placement) -> Step:
    """r: the branch's weight against the identity path, whose weight in z is 1."""
    section, _ = heading(sublayer)
    z = probed(placement, sublayer)
    weight = weight_beside_identity(z)
    assert weight is not None  # else the placement has no law, and no route was begun
    r = sp.Symbol(f"r_{sublayer.name.replace('-', '')}", positive=True)

    def grows(step: Step) -> bool:
        def added(witness: Witness, changed: dict[Any, float]) -> Rows:
            return combine(witness.inner(changed), witness.values[x], -1.0)

        return _in_proportion(_sizes(sublayer, placement, added), step.rhs)

    def stated(step: Step) -> bool:
        law = placement_law(placement).weight
        return bool(sp.simplify(law.xreplace({P: beta ** len(sublayer.scaled)}) / step.rhs) == 1)

    alike = Check("the branch of explicit matrices grows alike", grows)
    return Step(
        name=f"branch-weight-{sublayer.name}",
        section=section,
        lhs=r,
        rhs=weight.xreplace(at_common_gains(sublayer)),
        relation=Relation.EQUAL,
        because="what the branch adds to the identity path, with its directions taken out",
        source="Su, §Post-hoc analysis",
        uses=(f"probe-{sublayer.name}",),
        assumptions=("equal-gains",),
        establishes=(r,),
        checks=(
            *((alike,) if _outside_norms(z) else ()),
            Check("the placement's law for any branch", stated),
        ),
    )


def increment_step(sublayer: Sublayer, gradient: Step, degrees: Step, optimizer: Optimizer) -> Step:
    """One sublayer's increment: over its scaled matrices, γ·|Δθ| with |Δθ| = η γ^p |θ|^q.

    γ is the value of the gradient's step, p and q those of the degrees' step.
    """
    p, q = degrees_of(degrees)
    size = gradient.rhs
    constants = sp.symbols(f"c_1:{len(sublayer.scaled) + 1}", positive=True)
    update = eta * size**p * beta**q
    return Step(
        name=f"increment-{sublayer.name}",
        section="The balance",
        lhs=sp.Add(*(constant * size * update for constant in constants)),
        rhs=sp.powsimp(eta * size ** (1 + p) * beta**q),
        relation=Relation.ORDER,
        because=(
            "each scaled matrix changes the output by its gradient's size times its update's, "
            f"eta*|g|^({p})*|theta|^({q}) by the degrees; their constants are dropped"
        ),
        source="Su, §Increment explosion; §Multiple optimizers",
        uses=("degrees", gradient.name),
        assumptions=("aligned-updates",),
        bounded=constants,
        establishes=constants,
        checks=(ORDER_ONE, Check("the update on exact entries", _updated(optimizer, size))),
    )


def _updated(optimizer: Optimizer, gradient: sp.Expr) -> Callable[[Step], bool]:
    """γ·‖Δθ‖ of the optimizer's own expression, with a gradient of size γ and a matrix of β."""

    def holds(step: Step) -> bool:
        ratios = []
        for residual, size in _KNOBS:
            at = {alpha: sp.nsimplify(residual), beta: sp.nsimplify(size)}
            gamma = gradient.subs(at)
            length = step_length(optimizer, gamma, at[beta])
            ratios.append(sp.N(gamma * length / (step.rhs / eta).subs(at), 30))
        return bool(all(abs(ratio / ratios[0] - 1) < sp.Float("1e-20") for ratio in ratios))

    return holds


def probe_route(selection: Selection) -> Route:
    """Su's route, one block of steps for each distinct sublayer of the stack."""
    placement, optimizer = selection.the_placement, selection.the_optimizer
    scaling = scale_step(placement)
    counted = homogeneity_step(optimizer, degrees(optimizer))
    steps = [counted, *(() if scaling is None else (scaling,))]
    endings: list[Step] = []
    increments, weights = {}, {}
    distinct = {s.name: s for part in selection.the_stack.parts for s in part.layer}
    for name, sublayer in distinct.items():
        gradient = gradient_step(sublayer, placement, sublayer.scaled)
        steps.append(forward_step(sublayer, placement, scaling))
        steps.extend(derivative_steps(sublayer, placement, sublayer.scaled))
        steps.append(gradient)
        weights[name] = Proved(weight_step(sublayer, placement))
        increments[name] = Increment(increment_step(sublayer, gradient, counted, optimizer))
        steps.append(weights[name].step)
        endings.append(increments[name].step)
    return Route((*steps, *endings), _given(selection), increments, weights)


def _given(selection: Selection) -> tuple[sp.Symbol, ...]:
    symbols: dict[sp.Symbol, None] = dict.fromkeys(
        (alpha, beta, eta, delta, x, memory, ONES, upstream, jacobian, unit)
    )
    for part in selection.the_stack.parts:
        for sublayer in part.layer:
            for matrix in sublayer.matrices:
                of = (gain(matrix.name), direction(matrix.name), transverse(matrix.name))
                symbols.update(dict.fromkeys(of))
    return tuple(symbols)
