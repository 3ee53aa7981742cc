"""The lemma route of a selection: all sections in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp

from deepnet_theory.spec.selection import Selection
from deepnet_theory.spec.stack import Part
from deepnet_theory.symbolic.algebra.rational import vanishes
from deepnet_theory.symbolic.laws.optimizer import degrees, homogeneity_step
from deepnet_theory.symbolic.proof.step import Step
from deepnet_theory.symbolic.routes.lemma.cross import SECTION as CROSS_SECTION
from deepnet_theory.symbolic.routes.lemma.cross import SOURCE as CROSS_SOURCE
from deepnet_theory.symbolic.routes.lemma.cross import (
    cross_steps,
    encoder_increments,
    sublayer_count_steps,
)
from deepnet_theory.symbolic.routes.lemma.increment import (
    Kind,
    Law,
    increment_step,
    kinds,
    update_steps,
)
from deepnet_theory.symbolic.routes.lemma.jacobians import jacobian_steps
from deepnet_theory.symbolic.routes.lemma.placement import (
    Directions,
    P,
    directions,
    placement_steps,
)
from deepnet_theory.symbolic.routes.lemma.scalar import scalar_steps
from deepnet_theory.symbolic.routes.lemma.softmax import softmax_steps
from deepnet_theory.symbolic.routes.lemma.symbols import DEPTHS, alpha, beta, eta, gains, v, w, x
from deepnet_theory.symbolic.routes.lemma.telescoping import telescoping_steps


def given_symbols(selection: Selection) -> tuple[sp.Symbol, ...]:
    """The symbols of the setting: depths, α, β and gains of every part; the rest is established."""
    parts = selection.the_stack.parts
    found: dict[sp.Symbol, None] = dict.fromkeys((alpha, beta, eta, v, w, x))
    for part in parts:
        found[DEPTHS[part.depth]] = None
        for kind in kinds(part, selection):
            generic = gains(len(kind.gains))
            found.update(dict.fromkeys((kind.alpha, kind.beta, *kind.gains, *generic)))
    return tuple(found)


def lemma_steps(selection: Selection) -> tuple[Step, ...]:
    """Every step from the softmax lemma to ``increment-<part>``, the coefficient of η.

    The right-hand side of ``increment-<part>`` is in α and β of the part (``alpha_e``,
    ``beta_d`` … in a stack of two) and the depth symbols. An encoder–decoder has
    ``increment-encoder-own`` beside ``increment-encoder``: the encoder's increment at its own
    output, and at the stack's output, amplified by the decoder. Where a layer mixes kinds with
    different numbers of scaled matrices, ``share-<part>-<kind>`` is one kind's part of the sum.
    Raises :class:`~deepnet_theory.spec.errors.Refusal` where a law is missing.
    """
    parts = selection.the_stack.parts
    optimizer = selection.the_optimizer
    found = directions(selection.the_placement, alpha)
    law = Law(found, degrees(optimizer))
    per_part = {part.name: kinds(part, selection) for part in parts}
    counts = sorted({len(k.gains) for of in per_part.values() for k in of}, key=_two_first)

    steps = list(softmax_steps())
    steps += _sublayers(found, counts, law.degrees.p)
    steps.append(homogeneity_step(optimizer, law.degrees))
    steps += update_steps(law, gains(counts[0]))
    for count in counts[1:]:
        steps += _renamed(update_steps(law, gains(count)), f"-{count}")
    last = tuple(
        "increment-of-equal-sublayers" + ("" if index == 0 else f"-{count}")
        for index, count in enumerate(counts)
    )
    if len(parts) == 1:
        steps += _part_steps(parts[0], per_part[parts[0].name], law, uses=last)
        return tuple(steps)
    encoder, decoder = (per_part[part.name] for part in parts)
    steps += sublayer_count_steps(selection.the_stack)
    steps += cross_steps(selection, decoder, law)
    steps += _part_steps(
        parts[1],
        decoder,
        law,
        uses=(*last, "two-part-bound"),
        section=CROSS_SECTION,
        source=CROSS_SOURCE,
    )
    steps += encoder_increments(selection, encoder, decoder, law)
    return tuple(steps)


def _two_first(count: int) -> tuple[bool, int]:
    return (count != 2, count)


def _sublayers(found: Directions, counts: list[int], power: Any) -> list[Step]:
    """One sublayer and their telescoping; the scalar model where the placement is its own."""
    first = gains(counts[0])
    steps: list[Step] = []
    if _is_scalar_sublayer(found):
        steps += scalar_steps(first, alpha)
        steps += jacobian_steps()
    steps += telescoping_steps(normalised=found.normalised)
    steps += placement_steps(found, first, alpha, power)
    for count in counts[1:]:
        steps += _renamed(placement_steps(found, gains(count), alpha, power), f"-{count}")
    return steps


def _is_scalar_sublayer(found: Directions) -> bool:
    """Whether the placement's output is that of the scalar sublayer, (α, P)/√(α² + P²)."""
    return found.normalised and vanishes(found.weight - P / alpha)


def _renamed(steps: tuple[Step, ...], suffix: str) -> list[Step]:
    """The same steps for another number of gains, told apart by a suffix."""
    names = {step.name for step in steps}
    return [
        replace(
            step,
            name=step.name + suffix,
            uses=tuple(use + suffix if use in names else use for use in step.uses),
        )
        for step in steps
    ]


def _part_steps(part: Part, of: tuple[Kind, ...], law: Law, **say: Any) -> list[Step]:
    shares = [] if len(of) == 1 else [_share(part, kind, law, **say) for kind in of]
    uses = (*say.pop("uses"), *(share.name for share in shares))
    return [*shares, increment_step(part, of, law, uses=uses, **say)]


def _share(part: Part, kind: Kind, law: Law, **say: Any) -> Step:
    members = replace(part, layer=tuple(s for s in part.layer if s.name == kind.name))
    return increment_step(
        members,
        (kind,),
        law,
        name=f"share-{part.name}-{kind.name}",
        because=f"the part of the sum that the {kind.name} sublayers of the {part.name} make",
        **say,
    )
