"""One sublayer with every matrix written W = λU: its norm's scale, z, and the branch's weight."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.spec.placement import Placement, placement
from deepnet_theory.spec.sublayer import Sublayer, sublayer
from deepnet_theory.symbolic.algebra.nodes import Branch
from deepnet_theory.symbolic.algebra.symbols import alpha, beta
from deepnet_theory.symbolic.laws.branch import x
from deepnet_theory.symbolic.laws.explicit_matrices import TOLERANCE, Matrix, Witness, distance
from deepnet_theory.symbolic.laws.parameters import at_common_gains
from deepnet_theory.symbolic.laws.placement import (
    P,
    placement_law,
    probed,
    residual,
    weight_beside_identity,
)
from deepnet_theory.symbolic.proof.checks import NAMED
from deepnet_theory.symbolic.proof.section import Section
from deepnet_theory.symbolic.proof.step import Check, Step
from deepnet_theory.symbolic.routes.probe.sizes import (
    in_proportion,
    outside_norms,
    sizes,
)

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

    witness = Witness(sublayer("ffn"), placement("post-ln"))
    witness.values[P] = 0.7
    sides = [witness.evaluate(side, alpha) for side in (step.lhs, step.rhs)]
    return distance(*sides) < TOLERANCE


def forward_step(sublayer: Sublayer, placement: Placement, scaling: Step | None = None) -> Step:
    """z of the sublayer with every matrix written W = λU."""
    section = section_of(sublayer)
    z = sp.Symbol(f"z_{sublayer.name.replace('-', '')}", commutative=False)

    def agrees(step: Step) -> bool:
        witness = Witness(sublayer, placement)
        return distance(witness.evaluate(step.rhs, alpha), witness.inner({})) < TOLERANCE

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
        def added(witness: Witness) -> Matrix:
            beside: Matrix = witness.inner({}) - witness.values[x]
            return beside

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
