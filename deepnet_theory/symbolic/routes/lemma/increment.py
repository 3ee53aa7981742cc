r"""The update substituted: what one optimizer step makes one sublayer add to the output.

With :math:`D = \sqrt{\sum_j (P/\beta_j)^2}\,R` the response of the output to the branch's
parameters, :math:`\|g\| \le \|\partial L/\partial F\|\,D` and a step along the gradient of size
:math:`\|\Delta\theta\| = \eta\,\|g\|^p\,\|\theta\|^q`, one sublayer adds

.. math:: D\,\|\Delta\theta\| = \eta\,\|\partial L/\partial F\|^p\,D^{1+p}\,\|\theta\|^q, \qquad
          \|\theta\| = \sqrt{\textstyle\sum_j \beta_j^2} .
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from deepnet_theory.sizes.update import Update
from deepnet_theory.spec.sublayer import Sublayer, letters
from deepnet_theory.symbolic.algebra.monomial import S, alpha, beta, eta, i, r
from deepnet_theory.symbolic.expectation import norm_of, output_change
from deepnet_theory.symbolic.laws.placement import P, gains_product, placement_law
from deepnet_theory.symbolic.proof.checks import (
    SQUARES_AT_MOST,
    defines,
    equal_at_sizes,
    ratio_in_branch_weight,
)
from deepnet_theory.symbolic.proof.step import (
    SAMPLED,
    Regime,
    Relation,
    Section,
    Step,
)
from deepnet_theory.symbolic.routes.lemma.placement import Directions
from deepnet_theory.symbolic.routes.lemma.scalar import Gains

SOURCE = "layer cake, §4.3"
SECTION = Section("Update substituted", SOURCE)

loss_gradient = norm_of(
    "dL_dF", r"\partial L/\partial F"
)  # ‖∂L/∂F‖, the loss's gradient at the output


def responses(gains: Gains) -> sp.Expr:
    """Σ (P/β_j)², the squared norm of the branch's derivatives in its gains."""
    weight = sp.Mul(*gains)
    return sp.Add(*((weight / gain) ** 2 for gain in gains))


@dataclass(frozen=True)
class Law:
    """The response R of a placement and the degrees of an optimizer, at gains in any symbols."""

    found: Directions
    degrees: Update

    def response(self, of: Gains) -> sp.Expr:
        """D to leading order: R √Σ(P/β_j)²."""
        return sp.sqrt(responses(of)) * self.found.leading.xreplace({P: sp.Mul(*of)})

    def share(self, of: Gains) -> sp.Expr:
        """D^{1+p} ‖θ‖^q: one sublayer's increment per η, the loss's gradient dropped."""
        size = sp.sqrt(sp.Add(*(gain**2 for gain in of)))
        return self.response(of) ** (1 + self.degrees.p) * size**self.degrees.q


@dataclass(frozen=True)
class Passage:
    """What becomes of a change on its way to the output.

    ``size``: all later Jacobians in root mean square, as the step ``proved_by`` has it.
    ``telescoping``: the step that adds the sublayers' changes up.
    """

    size: sp.Expr
    proved_by: str
    telescoping: str


def update_steps(law: Law, of: Gains, passage: Passage, suffix: str) -> tuple[Step, ...]:
    """Gradient, update and increment of one sublayer, and the sum over S equal ones."""
    p, q = law.degrees.p, law.degrees.q
    gradient = _gradient_size(law, of, passage, suffix)
    per_gains = law.found.leading.xreplace({P: sp.Mul(*of)})
    responding = [per_gains * sp.Mul(*of) / gain for gain in of]
    size = sp.sqrt(sp.Add(*(gain**2 for gain in of)))
    length = gradient.rhs
    moves = [
        eta * length**p * size**q * (loss_gradient * response / length) for response in responding
    ]
    update = SECTION.equal(
        f"update-size{suffix}",
        sp.sqrt(sp.Add(*(move**2 for move in moves))),
        eta * length**p * size**q,
        f"a step along the gradient, of the optimizer's degrees p = {p}, q = {q}: "
        "‖Δθ‖ = η‖g‖^p‖θ‖^q. At equal gains the entries of g are equal, so that an update "
        "entry by entry runs along it as well",
        source="layer cake, §4.3, last supplement",
        uses=(gradient.name, "degrees"),
        assumptions=("equal-gains",),
        checks=(SAMPLED,),
    )
    moved = SECTION.equal(
        f"sublayer-increment{suffix}",
        sp.Add(*(response * move for response, move in zip(responding, moves, strict=True))),
        eta * loss_gradient**p * law.share(of),
        "the output moves by ⟨∂F/∂θ, Δθ⟩, which along the gradient is D‖Δθ‖",
        uses=(update.name,),
        assumptions=("linear-step",),
        checks=(SAMPLED,),
    )
    total = SECTION.equal(
        f"sum-over-sublayers{suffix}",
        sp.Sum(moved.rhs, (i, 1, S)),
        S * moved.rhs,
        "S equal terms added by the triangle inequality: what updates that push the output "
        "one way make; independent directions would make √S of it",
        uses=(passage.telescoping, moved.name),
        assumptions=("aligned-updates",),
        checks=(equal_at_sizes(S),),
    )
    return gradient, update, moved, total


def _gradient_size(law: Law, of: Gains, passage: Passage, suffix: str) -> Step:
    """‖g‖: a bound, or its leading order where the update falls with the gradient (p < 0)."""
    weight = law.found.weight.xreplace({P: sp.Mul(*of)})
    last = alpha if law.found.vanishing == alpha else of[0]
    exact = sp.sqrt(responses(of)) * law.found.response.xreplace({P: sp.Mul(*of)})
    approached = ratio_in_branch_weight(last, weight)
    step = SECTION.at_most(
        f"gradient-size{suffix}",
        loss_gradient * exact * passage.size,
        loss_gradient * law.response(of),
        "‖∂L/∂θ_i‖ ≤ ‖∂L/∂F‖ ‖∂F/∂θ_i‖, and ‖∂F/∂θ_i‖ is at most the last sublayer's: in "
        "mean square the Jacobians in between are at most 1",
        uses=(passage.proved_by, "branch-response"),
        assumptions=("independent-signs", "unit-activations", "small-branch-weight"),
        checks=(SQUARES_AT_MOST, approached),
        establishes=(loss_gradient,),
    )
    if law.degrees.p >= 0:
        return step
    return replace(
        step,
        relation=Relation.ASYMPTOTIC,
        because=(
            "the update falls with the gradient, so an upper bound would not do: the gradient's "
            "size itself, to leading order where S·r² is small"
        ),
        source="derived here",
        assumptions=(*step.assumptions, "near-identity"),
        regime=Regime(r, sp.S.Zero, "S*r**2 -> 0"),
        checks=(approached,),
    )


def premises(sublayer: Sublayer) -> tuple[str, ...]:
    """What makes a branch its gains' product times a map of order one."""
    named = {"softmax": "attention-keeps-magnitude", "phi": "homogeneous-activation"}
    return tuple(name for function, name in named.items() if function in sublayer.branch)


def weight_of(sublayer: Sublayer, law: Law) -> Step:
    """r of a sublayer, all its gains β."""

    return SECTION.equal(
        f"branch-weight-{sublayer.name}",
        r,
        law.found.weight.xreplace({P: beta ** len(sublayer.scaled)}),
        f"the {len(sublayer.scaled)} scaled matrices of {sublayer.name}, all gains β",
        uses=("branch-weight-of-placement",),
        assumptions=("equal-gains", *premises(sublayer)),
        checks=(
            defines(
                "the gains multiplied along the branch's own formula",
                lambda: placement_law(law.found.placement).weight.xreplace(
                    {P: gains_product(sublayer)}
                ),
            ),
        ),
        establishes=(r,),
        source="derived here",
    )


def increment_of(sublayer: Sublayer, law: Law, of: Gains, moved: Step) -> Step:
    """What one step makes a sublayer add, all its gains β: ``moved`` without the gradient."""
    equal = dict.fromkeys(of, beta)
    share = law.share(of).xreplace(equal)
    return SECTION.bound(
        f"increment-{sublayer.name}",
        moved.rhs.xreplace(equal),
        eta * sp.powdenest(sp.powsimp(share), force=True),
        f"all gains of {sublayer.name} are β, and the loss's gradient at the output is of "
        "order one",
        uses=(moved.name,),
        assumptions=("equal-gains", "bounded-loss-gradient", *premises(sublayer)),
        bounded=(loss_gradient,),
        left=output_change(letters(sublayer.name)),
    )
