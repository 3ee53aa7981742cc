"""One sublayer with every matrix written W = λU: its norm's scale, z, and the branch's weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy as sp

from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement, placement
from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.sublayer import Matrix, Role, Sublayer
from deepnet_theory.spec.sublayer import sublayer as named_sublayer
from deepnet_theory.symbolic.algebra.monomial import alpha, beta, eta
from deepnet_theory.symbolic.algebra.nodes import ONES, Branch, coefficient
from deepnet_theory.symbolic.laws.branch import (
    AT_REST,
    delta,
    direction,
    gain,
    memory,
    transverse,
    x,
)
from deepnet_theory.symbolic.laws.explicit_matrices import value_of, values_of
from deepnet_theory.symbolic.laws.optimizer import (
    degrees_of,
    homogeneity_step,
    step_length,
)
from deepnet_theory.symbolic.laws.placement import (
    P,
    at_common_gains,
    placement_law,
    probed,
    residual,
    weight_beside_identity,
)
from deepnet_theory.symbolic.proof.checks import NAMED
from deepnet_theory.symbolic.proof.step import ORDER_ONE, Check, Section, Step
from deepnet_theory.symbolic.proof.witness import TOLERANCE, Witness, distance
from deepnet_theory.symbolic.proof.witness import Matrix as Explicit
from deepnet_theory.symbolic.routes.route import Increment, Proved, Route

SUBLAYER = Section("The sublayer", "Su, §Feed-forward gradient")
_SECTIONS = {
    "attention": Section("Self-attention gradient", "Su, §Self-attention"),
    "cross": Section("Cross-attention gradient", "derived here, as Su, §Self-attention"),
    "ffn": Section("Feed-forward gradient", "Su, §Feed-forward gradient"),
}


def section_of(sublayer: Sublayer) -> Section:
    """The section of a sublayer's steps."""
    return _SECTIONS.get(sublayer.name, Section(f"{sublayer.summary} gradient"))


def scale_step(placement: Placement) -> Step | None:
    r"""A norm does not see the scale of its input: LN(αx + G) = LN(x + G/α).

    None where α does not stand inside a norm. Source: Su, §Feed-forward gradient.
    """

    written = residual(placement, lambda y: P * Branch(y), rescale=False)
    simplified = residual(placement, lambda y: P * Branch(y))
    if written == simplified:
        return None
    return SUBLAYER.equal(
        "norm-scale",
        written,
        simplified,
        "a norm is homogeneous of degree 0 (up to its epsilon)",
        establishes=(P,),
        checks=(Check("explicit matrices", _scales_alike),),
    )


def _scales_alike(step: Step) -> bool:
    """Both sides of a step in x, α and P, evaluated with an arbitrary branch, agree."""

    values = {**values_of(Witness.drawn(named_sublayer("ffn"), placement("post-ln"))), P: 0.7}
    sides = [value_of(side, values) for side in (step.lhs, step.rhs)]
    return distance(*sides) < TOLERANCE


def forward_step(sublayer: Sublayer, placement: Placement, scaling: Step | None = None) -> Step:
    """z of the sublayer with every matrix written W = λU."""
    section = section_of(sublayer)
    z = sp.Symbol(f"z_{sublayer.name.replace('-', '')}", commutative=False)

    def agrees(step: Step) -> bool:
        witness = Witness.drawn(sublayer, placement)
        return distance(value_of(step.rhs, values_of(witness)), witness.inner()) < TOLERANCE

    return section.equal(
        f"probe-{sublayer.name}",
        z,
        probed(placement, sublayer),
        "every matrix is its magnitude times a direction, W = lambda*U",
        uses=() if scaling is None else (scaling.name,),
        assumptions=("homogeneous-activation",) if "phi" in sublayer.branch else (),
        establishes=(z,),
        checks=(Check("explicit matrices", agrees), NAMED),
    )


def weight_step(sublayer: Sublayer, placement: Placement) -> Step:
    """r: the branch's weight against the identity path, whose weight in z is 1."""
    section = section_of(sublayer)
    z = probed(placement, sublayer)
    weight = weight_beside_identity(z)
    assert weight is not None  # else the placement has no law, and no route was begun
    r = sp.Symbol(f"r_{sublayer.name.replace('-', '')}", positive=True)

    def grows(step: Step) -> bool:
        def added(witness: Witness) -> Explicit:
            return witness.inner() - witness.stream[0]

        return in_proportion(sizes(sublayer, placement, added), step.rhs)

    def stated(step: Step) -> bool:
        law = placement_law(placement).weight
        return bool(sp.simplify(law.xreplace({P: beta ** len(sublayer.scaled)}) / step.rhs) == 1)

    alike = Check("the branch of explicit matrices grows alike", grows)
    return section.equal(
        f"branch-weight-{sublayer.name}",
        r,
        weight.xreplace(at_common_gains(sublayer)),
        "what the branch adds to the identity path, with its directions taken out",
        source="Su, §Post-hoc analysis",
        uses=(f"probe-{sublayer.name}",),
        assumptions=("equal-gains",),
        establishes=(r,),
        checks=(
            *((alike,) if outside_norms(z) else ()),
            Check("the placement's law for any branch", stated),
            NAMED,
        ),
    )


# ---- The gradient of each matrix: its probe, and its order once bounded factors are dropped ----


upstream = sp.Symbol("L_x", positive=True)  # |∂L/∂x_{l+1}|
jacobian = sp.Symbol("J", positive=True)  # |∂x_{l+1}/∂z_{l+1}|
unit = sp.Symbol("B", positive=True)  # |B(x)|: |φ(xU)U| and the like, of order one


def derivative_steps(
    sublayer: Sublayer, placement: Placement, matrices: tuple[Matrix, ...]
) -> Iterator[Step]:
    """∂z/∂λ for each of the matrices: taken by SymPy, checked by a finite difference."""
    section = section_of(sublayer)
    z = probed(placement, sublayer)
    witness = Witness.drawn(sublayer, placement)
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
            checks=(Check("explicit matrices", _as_derived(witness, matrix.name, radially=True)),),
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
                checks=(Check("explicit matrices", _as_derived(witness, matrix.name)),),
            )


def _as_derived(witness: Witness, moved: str, radially: bool = False) -> Callable[[Step], bool]:
    def agrees(step: Step) -> bool:
        numeric = witness.inner(moved, radially).derivative
        for side in (step.lhs.doit(), step.rhs):
            if side == 0:
                error = max(abs(entry) for row in numeric for entry in row)
            else:
                error = distance(value_of(side, values_of(witness)), numeric)
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
    alike = Check("the derivative grows alike", _grows_alike(sublayer, placement, matrices))
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
                sizes(sublayer, placement, lambda w, m=m: w.inner(m.name).derivative),  # type: ignore[misc]
                step.rhs,
            )
            for m in matrices
        )

    return holds


# ---- How sizes of explicit matrices grow with α and β: what orders are held against ----


def outside_norms(z: sp.Expr) -> bool:
    """Whether the identity path is a term of z: what is added to it then scales exactly."""
    return x in sp.Add.make_args(z)


# compare sizes of explicit matrices at these (α, β): every power of either shows
KNOBS = ((1.3, 0.7), (2.6, 0.7), (1.3, 1.4))


def sizes(
    sublayer: Sublayer, placement: Placement, of: Callable[[Witness], Explicit]
) -> list[float]:
    """The Frobenius norm of something at the knobs, with explicit matrices."""
    return [of(Witness.at(sublayer, placement, a, b)).norm for a, b in KNOBS]


def in_proportion(measured: list[float], stated: sp.Expr) -> bool:
    """Whether sizes at the knobs are in the ratios that an expression in α and β states."""
    values = [float(stated.subs({alpha: a, beta: b})) for a, b in KNOBS]
    ratios = [m / v for m, v in zip(measured, values, strict=True)]
    return all(abs(ratio / ratios[0] - 1) < TOLERANCE for ratio in ratios)


# ---- The increment of one sublayer: its gradients' size times its updates', by the degrees ----


SECTION = Section("The balance", "Su, §Increment explosion; §Multiple optimizers")


def increment_step(sublayer: Sublayer, gradient: Step, degrees: Step, optimizer: Optimizer) -> Step:
    """One sublayer's increment: over its scaled matrices, γ·|Δθ| with |Δθ| = η γ^p |θ|^q.

    γ is the value of the gradient's step, p and q those of the degrees' step.
    """
    p, q = degrees_of(degrees)
    size = gradient.rhs
    constants = sp.symbols(f"c_1:{len(sublayer.scaled) + 1}", positive=True)
    update = eta * size**p * beta**q
    return SECTION.order(
        f"increment-{sublayer.name}",
        sp.Add(*(constant * size * update for constant in constants)),
        sp.powsimp(eta * size ** (1 + p) * beta**q),
        (
            "each scaled matrix changes the output by its gradient's size times its update's, "
            f"eta*|g|^({p})*|theta|^({q}) by the degrees; their constants are dropped"
        ),
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
        for multiplier, size in KNOBS:
            at = {alpha: sp.nsimplify(multiplier), beta: sp.nsimplify(size)}
            gamma = gradient.subs(at)
            length = step_length(optimizer, gamma, at[beta])
            ratios.append(sp.N(gamma * sp.Float(str(length), 60) / (step.rhs / eta).subs(at), 30))
        return bool(all(abs(ratio / ratios[0] - 1) < sp.Float("1e-20") for ratio in ratios))

    return holds


# ---- The probe route of a selection: one block of steps for each distinct sublayer ----


def probe_route(selection: Selection) -> Route:
    """Su's route, one block of steps for each distinct sublayer of the stack."""
    placement, optimizer = selection.the_placement, selection.the_optimizer
    scaling = scale_step(placement)
    counted = homogeneity_step(optimizer, degrees(optimizer))
    steps = [counted, *(() if scaling is None else (scaling,))]
    endings: list[Step] = []
    increments, weights = {}, {}
    for sublayer in selection.the_stack.sublayers:
        name = sublayer.name
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
    for sublayer in selection.the_stack.sublayers:
        for matrix in sublayer.matrices:
            of = (gain(matrix.name), direction(matrix.name), transverse(matrix.name))
            symbols.update(dict.fromkeys(of))
    return tuple(symbols)
