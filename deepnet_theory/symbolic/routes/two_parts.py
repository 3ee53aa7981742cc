"""What tells the two parts of a stack: the decoder's cross-attentions read the encoder's output."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.stack import Part, Stack
from deepnet_theory.symbolic.algebra.symbols import DEPTHS


def encoder_and_decoder(stack: Stack) -> tuple[Part, Part]:
    """Both parts of a stack.

    Raises :class:`Refusal` where the decoder never attends to the encoder.
    """
    encoder, decoder = stack.parts
    if decoder.crossings == 0:
        raise Refusal(
            "the decoder's layer has no cross-attention, so the encoder does not reach the "
            "output and no rule follows for it; use the stack decoder"
        )
    return encoder, decoder


def sublayers(part: Part) -> sp.Expr:
    """S, the residual sublayers of all layers of a part."""
    return part.sublayers_per_layer * DEPTHS[part.depth]


def crossings(part: Part) -> sp.Expr:
    """K, the cross-attentions of all layers of a part."""
    return part.crossings * DEPTHS[part.depth]


def added_up(part: Part, layers: int, own: Callable[[int], sp.Expr], crossing: sp.Expr) -> sp.Expr:
    """Every sublayer's own term, and every cross-attention's, one by one through so many layers."""
    total: sp.Expr = sp.S.Zero
    for number, sublayer in enumerate(part.layer * layers, start=1):
        total += own(number)
        if sublayer.reads_memory:
            total += crossing
    return total
