"""The lemma route of a selection: all sections in order, and what they prove of each sublayer."""

from __future__ import annotations

import sympy as sp

from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.selection import Selection
from deepnet_theory.symbolic.algebra.monomial import DEPTHS, alpha, beta, eta, gains, vanishes
from deepnet_theory.symbolic.laws.optimizer import homogeneity_step
from deepnet_theory.symbolic.laws.placement import P
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.lemma.cross import amplification_step, cross_steps
from deepnet_theory.symbolic.routes.lemma.increment import (
    Law,
    Passage,
    increment_of,
    update_steps,
    weight_of,
)
from deepnet_theory.symbolic.routes.lemma.jacobians import jacobian_step
from deepnet_theory.symbolic.routes.lemma.placement import Directions, directions, placement_steps
from deepnet_theory.symbolic.routes.lemma.scalar import scalar_steps
from deepnet_theory.symbolic.routes.lemma.telescoping import telescoping_steps
from deepnet_theory.symbolic.routes.route import Route, encoder_and_decoder


def lemma_route(selection: Selection) -> Route:
    """DeepNet's route as the layer cake completes it.

    Raises :class:`~deepnet_theory.spec.errors.Refusal` where a law is missing.
    """
    distinct = {s.name: s for part in selection.the_stack.parts for s in part.layer}
    counts = gain_counts(selection)
    found = directions(selection.the_placement)
    law = Law(found, degrees(selection.the_optimizer))
    steps, passage = _sublayers(found, counts[0])
    steps.append(homogeneity_step(selection.the_optimizer, law.degrees))
    moved: dict[int, Step] = {}
    sums: list[str] = []
    for count in counts:
        suffix = "" if count == counts[0] else f"-{count}"
        *updates, total = update_steps(law, gains(count), passage, suffix)
        moved[count] = updates[-1]
        steps += [*updates, total]
        sums.append(total.name)
    if len(selection.the_stack.parts) == 2:
        _, decoder = encoder_and_decoder(selection.the_stack)
        aligned = selection.amplification != "independent"
        steps += cross_steps(found, decoder, passage.telescoping)
        steps.append(amplification_step(found, decoder, aligned=aligned))
        sums.append(steps[-1].name)
    weights = {name: weight_of(s, law) for name, s in distinct.items()}
    increments = {
        name: increment_of(s, law, gains(len(s.scaled)), moved[len(s.scaled)], selection)
        for name, s in distinct.items()
    }
    steps += [proved.step for proved in (*weights.values(), *increments.values())]
    return Route(tuple(steps), _given(selection, counts), increments, weights, tuple(sums))


def gain_counts(selection: Selection) -> list[int]:
    """The numbers of scaled matrices that a branch of the stack has, two of them first."""
    counts = {len(s.scaled) for part in selection.the_stack.parts for s in part.layer}
    return sorted(counts, key=lambda count: (count != 2, count))


def _given(selection: Selection, counts: list[int]) -> tuple[sp.Symbol, ...]:
    depths = (DEPTHS[depth] for depth in selection.the_stack.depths)
    magnitudes = (gain for count in counts for gain in gains(count))
    return tuple(dict.fromkeys((alpha, beta, eta, P, *depths, *magnitudes)))


def _sublayers(found: Directions, count: int) -> tuple[list[Step], Passage]:
    """One sublayer and all of them, and what they say of a change on its way to the output."""
    of_placement = placement_steps(found)
    if not found.placement.normalises_sum:
        steps = [*telescoping_steps(None), *of_placement]
        later = next(s for s in of_placement if s.name == "stream-jacobians")
        return steps, Passage(sp.sqrt(later.rhs), later.name, "telescoping-through-the-stream")
    if not vanishes(found.weight - P / alpha):
        raise Refusal(
            f"the lemma route has no law for the placement {found.placement.name!r}: the products "
            "of Jacobians are known of norm(alpha*x + branch(x)) alone"
        )
    jacobian = jacobian_step()
    telescoping = telescoping_steps(jacobian.rhs)
    steps = [*scalar_steps(gains(count)), jacobian, *telescoping, *of_placement]
    return steps, Passage(jacobian.rhs, jacobian.name, telescoping[-1].name)
