"""The moment route: the layer cake's §5, with matrices, exact expectations and its conditions.

What the source derives: the second moments of a post-LN sublayer with independent Gaussian
weights, the recursion of the change through it, and the coefficient √(v²+w²)/α of ‖Δθ‖. What is
added: the Jacobian of the norm exactly, ReLU's mask as the function of the weights that it is,
Xavier's variances, any number of heads, how near ‖z‖ is to its mean square, the update as an
optimizer makes it, the sequence length, and the decoder's cross-attentions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.symbols import alpha
from deepnet_theory.symbolic.laws.optimizer import degrees, homogeneity_step
from deepnet_theory.symbolic.laws.placement import P, placement_law
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.moments.cross import Crossing, cross_steps
from deepnet_theory.symbolic.routes.moments.gradient_step import gradient_step_steps
from deepnet_theory.symbolic.routes.moments.increment import increment_step
from deepnet_theory.symbolic.routes.moments.norm import norm_size_steps, norm_steps
from deepnet_theory.symbolic.routes.moments.placement import stream_of, stream_steps
from deepnet_theory.symbolic.routes.moments.recursion import recursion_steps, telescoping_step
from deepnet_theory.symbolic.routes.moments.setting import (
    CAKE,
    CAKE_ATTENTION,
    GaussianBranch,
    given,
    source_convention,
)
from deepnet_theory.symbolic.routes.moments.sublayer import sublayer_steps
from deepnet_theory.symbolic.routes.moments.two_parts import halves, two_part_steps
from deepnet_theory.symbolic.rule.balance import Problem

__all__ = ["given_symbols", "moment_steps"]

BRANCHES = {
    "ffn": GaussianBranch("ffn", True, source_convention(True), CAKE),
    "attention": GaussianBranch("attention", False, source_convention(False), CAKE_ATTENTION),
}
READS_MEMORY = {"cross": "attention"}  # the same two matrices, behind another input


def branches(selection: Selection) -> tuple[GaussianBranch, ...]:
    """The kinds of sublayers of the selection that the route has a law for.

    Raises :class:`Refusal` for every other placement or sublayer, naming the missing law.
    """
    if not _normalised(selection):
        stream_of(selection.the_placement)
    names = {s.name: None for part in selection.the_stack.parts for s in part.layer}
    kinds = {READS_MEMORY.get(name, name) for name in names}
    missing = [name for name in names if READS_MEMORY.get(name, name) not in BRANCHES]
    if missing:
        raise Refusal(
            f"the moment route has no second moment of the branch {missing[0]!r}: it is no product "
            "of two matrices around a mask, so that a change of its input does not pass it by the "
            f"factor of its size (it has the moments of {', '.join((*BRANCHES, *READS_MEMORY))}); "
            "use --method probe or lemma"
        )
    # the feed-forward sublayer first, as in the source
    return tuple(branch for name, branch in BRANCHES.items() if name in kinds)


def moment_steps(selection: Selection) -> tuple[Step, ...]:
    """The route's steps; the last are one sublayer's share of the change per η, by part.

    Raises :class:`Refusal` where a law is missing.
    """
    kinds = branches(selection)
    two, normalised = len(selection.the_stack.parts) == 2, _normalised(selection)
    steps = _steps(kinds, selection.the_norm.centred)
    if normalised:
        steps += _post_ln(kinds)
    else:
        steps += stream_steps(selection.the_placement, kinds)
    steps += (homogeneity_step(selection.the_optimizer, degrees(selection.the_optimizer)),)
    if not two:
        return (*steps, increment_step(selection))
    law = placement_law(selection.the_placement)
    stream = None if normalised else stream_of(selection.the_placement)
    crossing = Crossing(BRANCHES["attention"], law, stream)
    return (*steps, *cross_steps(crossing), *two_part_steps(selection, normalised))


def given_symbols(selection: Selection) -> tuple[Any, ...]:
    """The symbols that stand before the first step."""
    branches(selection)
    if len(selection.the_stack.parts) == 1:
        return given()
    return (*given(), *(symbol for half in halves(selection) for symbol in half.symbols))


@cache
def _steps(kinds: tuple[GaussianBranch, ...], centred: bool) -> tuple[Step, ...]:
    steps: list[Step] = []
    for branch in kinds:
        steps += sublayer_steps(branch)
    steps += norm_steps(centred)
    for branch in kinds:
        steps += gradient_step_steps(branch)
    return tuple(steps)


@cache
def _post_ln(kinds: tuple[GaussianBranch, ...]) -> tuple[Step, ...]:
    """The source's own recursion: the sum of path and branch is normalised."""
    return (
        *norm_size_steps(kinds),
        *recursion_steps(kinds),
        telescoping_step(),
    )


def _normalised(selection: Selection) -> bool:
    """Whether the placement is the source's: path and branch summed, then normalised."""
    problem = Problem(selection)
    return problem.law.normalised and problem.law.weight == P / alpha
