"""From a rule at a depth to the constants of the stack that is measured."""

from __future__ import annotations

from collections.abc import Mapping

from deepnet_theory.numeric.settings import Settings
from deepnet_theory.spec.constants import (
    Architecture,
    Constants,
    PartConstants,
    SublayerConstants,
)
from deepnet_theory.spec.rule import Rule
from deepnet_theory.spec.selection import Selection

VOCAB = 256  # bytes


def constants_for(
    selection: Selection, rule: Rule, depth: Mapping[str, int], settings: Settings
) -> Constants:
    """The constants of ``selection``'s stack under ``rule`` at ``depth``, in the settings' sizes.

    Raises :class:`~deepnet_theory.spec.errors.InputError` where the rule has no positive,
    finite value, or says nothing of a sublayer.
    """
    parts = []
    for part in selection.the_stack.parts:
        sublayers = []
        for sublayer in part.layer:
            alpha, beta = rule.entry(part.name, sublayer.name).at(**depth)
            sublayers.append(SublayerConstants(sublayer.name, alpha, beta))
        parts.append(PartConstants(part.name, depth[part.depth], part.causal, tuple(sublayers)))
    optimizer = selection.the_optimizer
    return Constants(
        stack=selection.stack,
        placement=selection.placement,
        norm=selection.norm,
        parts=tuple(parts),
        architecture=Architecture(
            width=settings.width,
            heads=settings.heads,
            ffn_ratio=settings.ffn_ratio,
            vocab=VOCAB,
            activation=settings.activation,
        ),
        optimizer=optimizer.name,
        update=optimizer.update,
        eta=rule.eta_at(**depth),
    )
