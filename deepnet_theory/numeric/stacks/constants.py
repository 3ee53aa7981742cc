"""From a rule at a depth to the constants of the stack that is measured."""

from __future__ import annotations

from collections.abc import Mapping

from deepnet_theory.numeric.stacks.settings import Settings
from deepnet_theory.spec.constants import Architecture, Constants
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
    sizes = Architecture(
        width=settings.width,
        heads=settings.heads,
        ffn_ratio=settings.ffn_ratio,
        vocab=VOCAB,
        activation=settings.activation,
    )
    return Constants.of(selection, rule, depth, sizes)
