r"""Published schemes: what one does under an optimizer, judged under every class of them.

A scheme has a gain for every matrix, constants that may depend on the layer's index, and first
layers that may have another equation; otherwise its exponents are those of a rule's constants. Two
rules are one class under an optimizer where the first order, S·r and ρ have the same exponents:
those are what a change of scales leaves alone. Nothing is compared by name.
"""

from __future__ import annotations

from fractions import Fraction

from deepnet_theory.sizes import update
from deepnet_theory.sizes.exponents import SPOKEN_OF as SPOKEN_OF
from deepnet_theory.sizes.exponents import (
    Branch,
    Segment,
    drift,
    trial,
)
from deepnet_theory.sizes.exponents import PartTrial as PartTrial
from deepnet_theory.sizes.growth import ONE, ZERO, Power, size_of
from deepnet_theory.sizes.laws import law
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.norm import norm
from deepnet_theory.spec.optimizer import Optimizer
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.scheme import Scheme, SchemePart
from deepnet_theory.spec.stack import stack
from deepnet_theory.spec.sublayer import Role

# ---- one scheme under one optimizer ----


def trials(scheme: Scheme, optimizer: Optimizer) -> tuple[PartTrial, ...]:
    """Every part of a scheme under an optimizer.

    Raises :class:`Refusal` where streams have no equation, where the scheme changes in time, its
    stream explodes, or where its equation or the update has no law.
    """
    if scheme.streams > 1:
        raise Refusal(
            f"the scheme {scheme.name!r} carries {scheme.streams} residual streams, and the law "
            "of two streams is missing: its residual equation has one identity path"
        )
    scheme = scheme.of_one_stream
    if scheme.schedule:
        raise Refusal(
            f"the scheme {scheme.name!r} multiplies its branch by {scheme.schedule} in the step t "
            "of training, and the law of a residual equation that changes in time is missing"
        )
    degrees = update.law(optimizer)
    found = []
    for part in scheme.parts:
        depth = next(p.depth for p in stack(scheme.stack).parts if p.name == part.name)
        segments = [_segment(scheme, part, depth, None, ONE, degrees)]
        if scheme.first_placement is not None:
            length = _positive(scheme.first_layers, depth).at(ONE)
            segments.append(_segment(scheme, part, depth, scheme.first_placement, length, degrees))
        found.append(trial(part.name, depth, tuple(segments)))
    return tuple(found)


def _positive(text: str, depth: str) -> Power:
    size = size_of(text, depth)
    assert size is not None
    return size


def _segment(
    scheme: Scheme,
    part: SchemePart,
    depth: str,
    first: Placement | None,
    layers: Fraction,
    degrees: update.Update,
) -> Segment:
    """All layers of a part, or the first N^layers of them, which have another equation."""
    branches, drifts = [], ZERO
    for sublayer in dict.fromkeys(scheme.layer_of(part.name)):
        placement = first or scheme.placed(sublayer)
        gains = {m.name: size_of(part.gain(m.name), depth) for m in sublayer.matrices}
        rates = {role: _positive(scheme.rate_of(role), depth) for role in Role}
        one = law(placement, sublayer, norm(scheme.norm))
        branches.append(Branch(one, {"alpha": size_of(part.alpha, depth), **gains}, rates))
        whose = f"the scheme {scheme.name!r}, {placement.equation},"
        drifts += drift(one, part.alpha, depth, whose)
    segment = Segment(
        tuple(branches),
        degrees,
        layers,
        uses=_positive(scheme.uses, depth),
        as_large=not (scheme.final_norm or scheme.placement.normalises_sum),
        drift=drifts,
        embedding=_positive(part.embedding, depth),
    )
    felt = any(branch.law.added.exponent("stream") for branch in branches)
    grown = segment.weights(2, segment.embedding) if felt and not segment.normalised else None
    if grown is not None and grown > 0:
        raise Refusal(
            f"the stream of the scheme {scheme.name!r} explodes: its equation "
            f"{(first or scheme.placement).equation!r} has no norm, and S*r^2 grows as "
            f"{depth}^({grown})"
        )
    return segment
