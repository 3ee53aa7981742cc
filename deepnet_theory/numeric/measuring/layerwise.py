"""The same quantities layer by layer, from the bottom of the stack to its top."""

from __future__ import annotations

from dataclasses import dataclass

from deepnet_theory.numeric.measuring.trace import take_trace
from deepnet_theory.numeric.stacks.case import Case
from deepnet_theory.numeric.stacks.threads import fitting_threads
from deepnet_theory.numeric.stacks.trial import Trial

QUANTITIES = (
    "input_size",
    "token_correlation",
    "branch_weight",
    "branch_response",
    "norm_jacobian",
    "upstream_gradient",
)


@dataclass(frozen=True)
class SublayerRow:
    """One quantity of one sublayer, or the gradient norm of one parameter: a value a seed.

    ``quantity`` is one of :data:`QUANTITIES`, or ``gradient of NAME``; ``part``, ``layer`` (from
    0) and ``sublayer`` (its kind) say where.
    """

    quantity: str
    part: str
    layer: int
    sublayer: str
    values: tuple[float, ...]


def measure_sublayers(case: Case) -> tuple[SublayerRow, ...]:
    """‖∂L/∂x_l‖, branch weights, token correlations and gradient sizes, sublayer by sublayer."""
    with fitting_threads(case.settings):
        trace = take_trace(Trial(case))
    rows = [
        SublayerRow(quantity, s.part, s.layer, s.kind, tuple(getattr(s, quantity).tolist()))
        for quantity in QUANTITIES
        for s in trace.sublayers
    ]
    gradients = [
        SublayerRow(f"gradient of {d.name}", d.part, d.layer, d.kind or "", tuple(g.norm.tolist()))
        for g in trace.gradients
        if (d := g.description).part is not None and d.layer is not None
    ]
    # the backward pass meets the top of the stack first
    return (*rows, *reversed(gradients))
