"""The probes of matrices that β does not reach: query and key, whose gradient carries P/α.

No balance rests on them; what they move under a rule stands with its shares.

Source: Su, §Self-attention.
"""

from __future__ import annotations

from collections.abc import Iterator

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.probe import derivative_steps, gradient_step
from deepnet_theory.proof.step import Step


def unscaled_steps(selection: Selection) -> Iterator[Step]:
    """The radial probe of each unscaled matrix and the order of their gradients."""
    placement = selection.the_placement
    for sublayer in selection.the_stack.sublayers:
        if sublayer.unscaled:
            yield from derivative_steps(sublayer, placement, sublayer.unscaled)
            yield gradient_step(sublayer, placement, sublayer.unscaled)
