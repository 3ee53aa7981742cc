"""The rules of the post as texts in N, and exponents of a step under each of them."""

from __future__ import annotations

from collections.abc import Sequence

from deepnet_theory.spec.claim import Context
from paper_checks._stack import Exponent, Net, depths, exponent, model_updates, variations

# Transcribed from Su's table; what the engine derives is compared with these in su-table.
PUBLISHED = {
    "sgd": ("(2*N)**(1/4)", "(2*N)**(-1/4)"),
    "adam": ("(2*N)**(1/2)", "(2*N)**(-1/2)"),
    "lamb": ("1", "(2*N)**(-1/2)"),
}


def update_exponents(
    context: Context, net: Net, at: Sequence[int] | None = None, **other: object
) -> list[Exponent]:
    """The exponent of ‖ΔF‖/η in depth under every condition of the run."""
    at = depths(context) if at is None else at
    return [
        exponent(label, at, model_updates(net, at, s))
        for label, s in variations(context, **other).items()
    ]
