r"""The gradient in each magnitude of a sublayer, every magnitude kept apart.

.. math:: \frac{\partial L}{\partial\lambda_1}
          = \frac{\partial L}{\partial x_{l+1}}\frac{\partial x_{l+1}}{\partial z_{l+1}}
            \frac{\lambda_2\,\phi(xU_1)U_2}{\alpha} = O(\lambda_2/\alpha)

and its like for the other matrices. The probe route then sets all scaled magnitudes to β.

Source: Su, §Feed-forward gradient, §Self-attention, and the reply on BranchNorm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import sympy as sp

from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import Sublayer, sublayer
from deepnet_theory.proof.algebra import Branch, Normalise, coefficient
from deepnet_theory.proof.placement import (
    P,
    branch,
    central_difference,
    direction,
    gain,
    inside,
    probed,
    residual,
    value_of,
    values_of,
    x,
)
from deepnet_theory.proof.probe import SUBLAYER, jacobian, section_of, unit, upstream
from deepnet_theory.proof.step import Check, Step
from deepnet_theory.proof.witness import TOLERANCE, Array, Witness, distance
from paper_checks.shared.steps.nodes import ON_MATRICES, Loss, any_loss

# where the source displays them: the sublayer, its gradients, their orders
_DISPLAYED = {
    "ffn": ("second and third equations", "fourth equation", "fifth equation"),
    "attention": ("first and second equations", "third equation", "fourth equation"),
}
_NOT_DISPLAYED = ("query", "key")  # said to be small, above the equation
_b = sp.Symbol("b", positive=True)  # BranchNorm's factor of the branch


def gradient_steps(selection: Selection) -> Iterator[Step]:
    """For each distinct sublayer: W = λU put in, then the chain rule in every λ, and its order."""
    placement = selection.the_placement
    if placement.name == "post-ln":
        yield _branch_norm(placement)
    for member in selection.the_stack.sublayers:
        yield _factored(member, placement)
        for matrix in member.matrices:
            yield from _in_one_magnitude(member, placement, matrix.name)


def given(selection: Selection) -> tuple[sp.Symbol, ...]:
    """The symbols of the setting."""
    members = selection.the_stack.sublayers
    matrices = dict.fromkeys(_weight(m.name) for s in members for m in s.matrices)
    return (*matrices, P, _b)


def _cited(member: Sublayer, place: int, matrix: str = "") -> str:
    """The source, with the equation that a step states where the source displays it."""
    source = section_of(member).source
    if member.name not in _DISPLAYED or matrix in _NOT_DISPLAYED:
        return source
    return f"{source}, {_DISPLAYED[member.name][place]}"


def _weight(matrix: str) -> sp.Symbol:
    """The matrix W itself, magnitude and direction together."""
    return sp.Symbol(direction(matrix).name.replace("U", "W"), commutative=False)


def _factored(member: Sublayer, placement: Placement) -> Step:
    section = section_of(member)

    def agrees(step: Step) -> bool:
        witness = Witness.drawn(member, placement)
        values = values_of(witness)
        for matrix in member.matrices:
            u, magnitude = (values[s(matrix.name)] for s in (direction, gain))
            values[_weight(matrix.name)] = magnitude * u
        truth = witness.inner()
        sides = (value_of(side, values) for side in (step.lhs, step.rhs))
        return all(distance(side, truth) < TOLERANCE for side in sides)

    return section.equal(
        f"factored-{member.name}",
        inside(placement, lambda argument: branch(member, argument=argument, matrix=_weight)),
        probed(placement, member),
        (
            "z of the sublayer in its matrices W, and with W = lambda*U put in"
            + ("; phi lets a positive factor pass" if "phi" in member.branch else "")
        ),
        source=_cited(member, 0),
        assumptions=("homogeneous-activation",) if "phi" in member.branch else (),
        checks=(Check("explicit matrices W = lambda*U", agrees),),
    )


def _in_one_magnitude(member: Sublayer, placement: Placement, matrix: str) -> Iterator[Step]:
    """dL/dλ by the chain rule, and its order with every magnitude its own."""
    section = section_of(member)
    magnitude = gain(matrix)
    loss = Loss(residual(placement, lambda argument: branch(member, None, argument)))
    derivative = sp.expand_mul(sp.diff(loss, magnitude))
    if derivative == 0:
        return  # a norm of the branch hides its magnitudes: the transverse probe's matter
    witness = Witness.drawn(member, placement)

    def moved(h: float) -> Array:
        gains = {**witness.gains, matrix: witness.gains[matrix] + h}
        return any_loss(replace(witness, gains=gains).output())

    def agrees(step: Step) -> bool:
        numeric = central_difference(moved)
        values = values_of(witness)
        sides = (value_of(side, values, ON_MATRICES) for side in (step.lhs, step.rhs))
        return all(distance(side, numeric) < TOLERANCE for side in sides)

    chain = f"chain-{member.name}-{matrix}"
    yield section.equal(
        chain,
        sp.Derivative(loss, magnitude),
        derivative,
        (
            f"the chain rule in the magnitude of {matrix}: the loss's gradient at the sublayer's "
            "output, the norm's Jacobian and dz/dlambda, for any loss L"
        ),
        source=_cited(member, 1, matrix),
        uses=(f"factored-{member.name}",),
        checks=(Check("finite difference of a loss", agrees),),
    )
    scalar = coefficient(derivative)
    yield section.order(
        f"order-{member.name}-{matrix}",
        upstream * jacobian * unit * scalar,
        scalar,
        (
            "the upstream gradient, the norm's Jacobian and the branch with its magnitudes taken "
            "out are of order one; what is left are the other magnitudes over alpha"
        ),
        source=_cited(member, 2, matrix),
        uses=(chain,),
        assumptions=(
            "bounded-upstream-gradient",
            "bounded-norm-jacobian",
            "unit-branch",
            "unit-activations",
            *(("attention-keeps-magnitude",) if "softmax" in member.branch else ()),
        ),
        bounded=(upstream, jacobian, unit),
        checks=(Check("no more than the bounded factors, of order one", _only_bounded),),
    )


def _only_bounded(step: Step) -> bool:
    """lhs/rhs is the product of the bounded factors; each may be a constant."""
    ratio = sp.cancel(step.lhs / step.rhs)
    return bool(ratio.free_symbols == set(step.bounded) and ratio.is_positive)


def _branch_norm(placement: Placement) -> Step:
    """Norm(x + bF(x)) is Norm(αx + F(x)) with α = 1/b."""

    def agrees(step: Step) -> bool:
        values = {**values_of(Witness.drawn(sublayer("ffn"), placement)), P: 0.7, _b: 0.4}
        sides = [value_of(side, values) for side in (step.lhs, step.rhs)]
        return distance(*sides) < TOLERANCE

    return SUBLAYER.equal(
        "branch-norm",
        Normalise(x + _b * P * Branch(x)),
        Normalise(x / _b + P * Branch(x)),
        "BranchNorm is DeepNorm with alpha = 1/b: a growing b is a falling alpha",
        source="Su, reply of 2023-07 on BranchNorm, arXiv 2305.02790",
        checks=(Check("explicit matrices", agrees),),
    )
