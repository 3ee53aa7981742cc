"""The moment route: the layer cake's §5, with matrices, exact expectations and its conditions.

What the source derives: the second moments of a post-LN sublayer with independent Gaussian
weights, the recursion of the change through it, and the coefficient √(v²+w²)/α of ‖Δθ‖. What is
added: the Jacobian of the norm exactly, ReLU's mask as the function of the weights that it is,
Xavier's variances, any number of heads, how near ‖z‖ is to its mean square, the update as an
optimizer makes it, and the sequence length.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.balance import Problem, normalises_the_sum
from deepnet_theory.symbolic.degree import Degrees, degrees, homogeneity_step
from deepnet_theory.symbolic.moment_route.aligned import aligned_steps
from deepnet_theory.symbolic.moment_route.concentration import concentration_steps
from deepnet_theory.symbolic.moment_route.conventions import convention_steps, head_steps
from deepnet_theory.symbolic.moment_route.mask import mask_steps
from deepnet_theory.symbolic.moment_route.norm import norm_size_steps, norm_steps
from deepnet_theory.symbolic.moment_route.placement import stream_of, stream_steps
from deepnet_theory.symbolic.moment_route.ranges import range_steps
from deepnet_theory.symbolic.moment_route.recursion import (
    COEFFICIENT,
    recursion_steps,
    telescoping_step,
)
from deepnet_theory.symbolic.moment_route.rule import sharper_rule_steps
from deepnet_theory.symbolic.moment_route.setting import (
    CAKE,
    CAKE_ATTENTION,
    Branch,
    given,
    source_convention,
)
from deepnet_theory.symbolic.moment_route.sublayer import sublayer_steps
from deepnet_theory.symbolic.moment_route.tokens import token_steps
from deepnet_theory.symbolic.moments.model import norm_of
from deepnet_theory.symbolic.placement_law import P, placement_law
from deepnet_theory.symbolic.relation import Relation
from deepnet_theory.symbolic.step import BOUNDED, Check, Step
from deepnet_theory.symbolic.symbols import alpha, beta, eta

__all__ = ["given_symbols", "moment_steps"]

loss_gradient = norm_of("dL_dF", r"\partial L/\partial F")

BRANCHES = {
    "ffn": Branch("ffn", True, source_convention(True), CAKE),
    "attention": Branch("attention", False, source_convention(False), CAKE_ATTENTION),
}


def branches(selection: Selection) -> tuple[Branch, ...]:
    """The kinds of sublayers of the selection that the route has a law for.

    Raises :class:`Refusal` for every other placement or sublayer, naming the missing law.
    """
    if not _normalised(selection):
        stream_of(selection.the_placement)
    kinds = {s.name: s for part in selection.the_stack.parts for s in part.layer}
    missing = [name for name in kinds if name not in BRANCHES]
    if missing:
        formula = kinds[missing[0]].expression
        why = (
            "it reads the memory beside the stream"
            if "memory" in formula.names
            else "it is no product of two matrices around a mask, so that a change of its input "
            "does not pass it by the factor of its size"
        )
        raise Refusal(
            f"the moment route has no second moment of the branch {missing[0]!r}: {why} (it has "
            f"the moments of {', '.join(BRANCHES)}); use --method probe or lemma"
        )
    # the feed-forward sublayer first, as in the source
    return tuple(branch for name, branch in BRANCHES.items() if name in kinds)


def moment_steps(selection: Selection) -> tuple[Step, ...]:
    """The route's steps; the last is one sublayer's share of the change per η.

    Raises :class:`Refusal` where a law is missing.
    """
    kinds = branches(selection)
    steps = _steps(kinds, selection.the_norm.centred)
    if _normalised(selection):
        steps += _post_ln(kinds)
    else:
        steps += stream_steps(selection.the_placement, kinds)
    return steps + _ending(selection)


def given_symbols(selection: Selection) -> tuple[Any, ...]:
    """The symbols that stand before the first step."""
    branches(selection)
    return given()


@cache
def _steps(kinds: tuple[Branch, ...], centred: bool) -> tuple[Step, ...]:
    steps: list[Step] = []
    for branch in kinds:
        steps += sublayer_steps(branch)
        if branch.rectified:
            steps += range_steps(branch)
            steps += mask_steps(branch)
        else:
            steps += head_steps(branch)
        steps += convention_steps(branch)
        steps += concentration_steps(branch)
    steps += norm_steps(centred)
    steps += aligned_steps(kinds)
    steps += token_steps()
    return tuple(steps)


@cache
def _post_ln(kinds: tuple[Branch, ...]) -> tuple[Step, ...]:
    """The source's own recursion: the sum of path and branch is normalised."""
    return (
        *norm_size_steps(kinds),
        *recursion_steps(kinds),
        telescoping_step(),
        *sharper_rule_steps(),
    )


def _normalised(selection: Selection) -> bool:
    """Whether the placement is the source's: path and branch summed, then normalised."""
    problem = Problem(selection)
    return normalises_the_sum(problem) and problem.law.weight == P / alpha


def _ending(selection: Selection) -> tuple[Step, ...]:
    found: Degrees = degrees(selection.the_optimizer)
    kappa = placement_law(selection.the_placement).response.xreplace({P: beta**2})
    response = sp.sqrt(2) * beta * kappa
    size = sp.sqrt(2) * beta
    return (
        homogeneity_step(selection.the_optimizer, found),
        Step(
            name="moment-increment",
            section="Update substituted",
            lhs=response * (eta * (loss_gradient * response) ** found.p * size**found.q),
            rhs=eta
            * sp.sqrt(2) ** (1 + found.p + found.q)
            * (beta * kappa) ** (1 + found.p)
            * beta**found.q,
            relation=Relation.BOUND,
            because=(
                f"the coefficient {response} of ‖Δθ‖ times ‖Δθ‖ = η‖g‖^p‖θ‖^q at v = w = β, "
                f"p = {found.p}, q = {found.q}, ‖g‖ at most ‖∂L/∂F‖ times the same coefficient; "
                "‖∂L/∂F‖ is of order one"
            ),
            source="layer cake, §5.3 and §4.3",
            uses=(COEFFICIENT, "telescoping", "degrees"),
            assumptions=("bounded-loss-gradient", "independent-signs", "equal-gains"),
            establishes=(loss_gradient,),
            bounded=(loss_gradient,),
            checks=(BOUNDED, Check("equal where ‖∂L/∂F‖ = 1", _equal_at_unit_gradient)),
        ),
    )


def _equal_at_unit_gradient(step: Step) -> bool:
    ratio = sp.powsimp(step.lhs.subs(loss_gradient, 1) / step.rhs, force=True)
    return bool(sp.simplify(ratio - 1) == 0)
