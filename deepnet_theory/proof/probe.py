"""Su's route: every matrix written W = λU, its gradient by a probe, and what one step adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import sympy as sp

from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Sublayer, letters
from deepnet_theory.proof.algebra import BranchMap, alpha, beta, eta, norm_of, output_change, sized
from deepnet_theory.proof.degrees import homogeneity_step
from deepnet_theory.proof.placement import (
    AGREE,
    P,
    at_common_gains,
    branch_weight,
    gain,
    probed,
    residual,
    value_of,
    values_of,
    weight_beside_identity,
)
from deepnet_theory.proof.rule import Route
from deepnet_theory.proof.step import DROPPED, NAMED, ORDER_ONE, Check, Section, Step
from deepnet_theory.proof.witness import TOLERANCE, Witness, derivative, distance, rms
from deepnet_theory.sizes.laws import factors
from deepnet_theory.sizes.monomial import ONE
from deepnet_theory.sizes.update import Update
from deepnet_theory.sizes.update import law as degrees

SUBLAYER = Section("The sublayer", "Su, §Feed-forward gradient")
BALANCE = Section("The balance", "Su, §Increment explosion; §Multiple optimizers")
_SECTIONS = {
    "attention": Section("Self-attention gradient", "Su, §Self-attention"),
    "cross": Section("Cross-attention gradient", "derived here, as Su, §Self-attention"),
    "ffn": Section("Feed-forward gradient", "Su, §Feed-forward gradient"),
}

upstream = norm_of("dL_dx")  # |∂L/∂x_{l+1}|
jacobian = sp.Symbol("J_norm", positive=True)  # |∂x_{l+1}/∂z_{l+1}|
unit = norm_of("B")  # |B(x)|: |φ(xU)U| and the like, of order one


def section_of(sublayer: Sublayer) -> Section:
    return _SECTIONS.get(sublayer.name, Section(f"{sublayer.summary} gradient"))


def route(selection: Selection) -> Route:
    """Su's route, one block of steps for each distinct sublayer of the stack."""
    optimizer, sublayers = selection.the_optimizer, selection.the_stack.sublayers
    placement = selection.the_placement
    scaling = scale_step(placement)
    update = degrees(optimizer)
    steps = [homogeneity_step(optimizer, update), *filter(None, (scaling,))]
    increments, weights = {}, {}
    for sublayer in sublayers:
        gradient = gradient_step(sublayer, placement)
        weights[sublayer.name] = weight = weight_step(sublayer, placement)
        increments[sublayer.name] = increment_step(sublayer, gradient, update)
        steps.append(forward_step(sublayer, placement, scaling))
        steps += [*derivative_steps(sublayer, placement), gradient, weight]
    return Route((*steps, *increments.values()), increments, weights)


# ---- the sublayer: its norm's scale, z, and the branch's weight ----


def scale_step(placement: Placement) -> Step | None:
    r"""A norm does not see the scale of its input: LN(αx + G) = LN(x + G/α).

    None where α does not stand inside a norm.
    """
    stated, simplified = (
        residual(placement, lambda y: P * BranchMap(y), rescale=rescale)
        for rescale in (False, True)
    )
    if stated == simplified:
        return None
    return SUBLAYER.equal(
        "norm-scale", stated, simplified,
        "B is the branch with its gains taken out, P their product; a norm is homogeneous of "
        "degree 0 (up to its epsilon)",
        checks=(AGREE,),
    )  # fmt: skip


def of_sublayer(name: str, sublayer: Sublayer) -> sp.Symbol:
    """A matrix that belongs to a sublayer."""
    return sp.Symbol(f"{name}_{letters(sublayer.name)}", commutative=False)


def forward_step(sublayer: Sublayer, placement: Placement, scaling: Step | None = None) -> Step:
    """z of the sublayer with every matrix written W = λU."""

    def agrees(step: Step) -> bool:
        witness = Witness.drawn(sublayer, placement)
        return distance(value_of(step.rhs, values_of(witness)), witness.inner()) < TOLERANCE

    z = of_sublayer("z", sublayer)
    return section_of(sublayer).equal(
        f"probe-{sublayer.name}", z, probed(placement, sublayer),
        "z is the sum of path and branch; every matrix is a magnitude times a fixed direction, "
        "W = lambda*U",
        uses=() if scaling is None else (scaling.name,),
        assumptions=("homogeneous-activation",) if "phi" in sublayer.branch else (),
        checks=(Check("explicit matrices", agrees), NAMED),
    )  # fmt: skip


def weight_step(sublayer: Sublayer, placement: Placement) -> Step:
    """r: the branch's weight against the identity path, whose weight in z is 1."""
    weight = weight_beside_identity(probed(placement, sublayer))
    assert weight is not None  # else the placement has no law, and no route was begun
    r = sp.Symbol(f"r_{letters(sublayer.name)}", positive=True)
    # k independent experts weighed by 1/k, beside one branch
    law, size = branch_weight(placement), 1 / sp.sqrt(sublayer.chosen)

    def stated(step: Step) -> bool:
        weighed = beta ** len(factors(sublayer)) * size
        return sized(law.xreplace({P: weighed}) / step.rhs) == ONE

    return section_of(sublayer).equal(
        f"branch-weight-{sublayer.name}", r,
        weight.xreplace(at_common_gains(sublayer)) * law.xreplace({P: P * size}) / law,
        "the branch weight: the branch over the identity path, without their directions",
        source="Su, §Post-hoc analysis",
        uses=(f"probe-{sublayer.name}",),
        assumptions=("equal-gains",),
        checks=(Check("the placement's law for any branch", stated), NAMED),
    )  # fmt: skip


# ---- the gradient of each matrix: its probe, and its order once bounded factors are dropped ----


def across(sublayer: Sublayer, placement: Placement, matrix: str) -> sp.Expr:
    r"""The scalar of z moved across a matrix: that of the branch in z, over the matrix's own λ.

    A map of degree k in a matrix is :math:`f(\lambda U) = \lambda^k f(U)`, and its differential
    of degree k − 1.
    """
    return weight_beside_identity(probed(placement, sublayer)) / gain(matrix)


def derivative_steps(sublayer: Sublayer, placement: Placement) -> Iterator[Step]:
    """∂z/∂λ for each of the scaled matrices, and a move across those where a norm removes λ."""
    section, z = section_of(sublayer), of_sublayer("z", sublayer)
    stated = probed(placement, sublayer)
    for name in (matrix.name for matrix in sublayer.scaled):
        magnitude = gain(name)
        radial = sp.expand_mul(sp.diff(stated, magnitude))
        blind = radial == 0
        yield section.equal(
            f"radial-{sublayer.name}-{name}",
            sp.Integer(0) if blind else sp.Derivative(stated, magnitude), radial,
            f"z does not depend on {magnitude}: the norm removes it, so that the radial probe of "
            f"{name} is blind"
            if blind else f"the scalar probe of {name}: z differentiated in its magnitude",
            uses=(f"probe-{sublayer.name}",), left=sp.Derivative(z, magnitude),
            checks=(_as_derived(sublayer, placement, name),),
        )  # fmt: skip
        if blind:
            scalar = across(sublayer, placement, name)
            yield section.order(
                f"transverse-{sublayer.name}-{name}", unit * scalar, scalar,
                f"a small move h of {name} in a direction V across U, W = lambda*U + h*V: the "
                f"branch is of degree 0 in {name}, so that its differential is divided by "
                f"{magnitude}",
                source="derived here", uses=(f"probe-{sublayer.name}",), bounded=(unit,),
                left=sp.Abs(sp.Derivative(z, sp.Symbol("h", positive=True))),
                checks=(ORDER_ONE, DROPPED, _as_moved(sublayer, placement, name)),
            )  # fmt: skip


def _as_derived(sublayer: Sublayer, placement: Placement, moved: str) -> Check:
    def agrees(step: Step) -> bool:
        witness = Witness.drawn(sublayer, placement)
        slope = derivative(witness.inner(moved, radially=True))
        sides = (step.lhs.doit(), step.rhs)
        values = (0.0 * slope if s == 0 else value_of(s, values_of(witness)) for s in sides)
        return all(distance(value, slope) < TOLERANCE for value in values)

    return Check("explicit matrices", agrees)


def _as_moved(sublayer: Sublayer, placement: Placement, moved: str) -> Check:
    """The ratio of two moves of explicit matrices, each gain doubled, is that of the scalar."""

    def agrees(step: Step) -> bool:
        witness = Witness.drawn(sublayer, placement)
        doubled = {
            gain(m.name): replace(
                witness, gains={**witness.gains, m.name: 2 * witness.gains[m.name]}
            )
            for m in sublayer.scaled
        }
        doubled[alpha] = replace(witness, alpha=2 * witness.alpha)
        once = rms(derivative(witness.inner(moved)))
        for symbol, twice in doubled.items():
            ratio = rms(derivative(twice.inner(moved))) / once
            if abs(step.rhs.xreplace({symbol: 2 * symbol}) / step.rhs - ratio) > TOLERANCE:
                return False
        return True

    return Check("explicit matrices, each gain doubled", agrees)


def gradient_step(sublayer: Sublayer, placement: Placement) -> Step:
    """The order of the scaled matrices' gradients, once all bounded factors are dropped."""
    names = [matrix.name for matrix in sublayer.scaled]
    stated, common = probed(placement, sublayer), at_common_gains(sublayer)
    law = branch_weight(placement) / P
    scalar = across(sublayer, placement, names[0]).xreplace(common) / sublayer.experts
    scalar *= law.xreplace({P: P * 1 / sp.sqrt(sublayer.chosen)}) / law
    by = {name: "radial" if stated.has(gain(name)) else "transverse" for name in names}
    bounded_softmax = "softmax" in sublayer.branch and sublayer.experts == 1
    return section_of(sublayer).order(
        f"gradient-{sublayer.name}",
        upstream * jacobian * unit * scalar, scalar,
        f"the gradients of {', '.join(names)} by the chain rule: the gradient norm_dL_dx behind "
        "the sublayer, the norm's Jacobian J_norm and the branch norm_B without its gains are of "
        "order one, and all scaled gains are beta",
        uses=tuple(f"{probe}-{sublayer.name}-{name}" for name, probe in by.items()),
        assumptions=(
            "bounded-upstream-gradient", "bounded-norm-jacobian", "unit-branch",
            "unit-activations", "equal-gains",
            *(("attention-keeps-magnitude",) if bounded_softmax else ()),
        ),
        bounded=(upstream, jacobian, unit),
        left=sp.Abs(of_sublayer("g", sublayer)),
    )  # fmt: skip


# ---- the increment of one sublayer: its gradients' size times its updates', by the degrees ----


def increment_step(sublayer: Sublayer, gradient: Step, update: Update) -> Step:
    """One sublayer's increment: over its scaled matrices, γ·|Δθ| with |Δθ| = η γ^p |θ|^q.

    γ is the value of the gradient's step. The output answers all experts together as one dense
    branch, while each of them sees 1/E of its gradient.
    """
    p, q, size, times = update.p, update.q, gradient.rhs, sp.Integer(sublayer.experts)
    constants = sp.symbols(f"C_1:{len(sublayer.scaled) + 1}", positive=True)
    length = eta * sp.Symbol("|g|") ** sp.sympify(p) * sp.Symbol("|theta|") ** sp.sympify(q)
    stepped = eta * size**p * beta**q
    return BALANCE.order(
        f"increment-{sublayer.name}",
        sp.Add(*(constant * times * size * stepped for constant in constants)),
        sp.powsimp(eta * times * size ** (1 + p) * beta**q),
        "each scaled matrix changes the output by its gradient's size times its update's, "
        f"which is {length} by the degrees; the constants C are dropped",
        uses=("degrees", gradient.name),
        assumptions=("aligned-updates",), bounded=constants,
        left=output_change(letters(sublayer.name)),
    )  # fmt: skip
