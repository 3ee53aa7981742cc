"""The share of gradient entries that an optimizer's ε does not reach."""

import torch
from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The share of all stepped entries with |g| ≥ 10 ε: (seeds,)."""
    traced = probe.trace.gradients
    shares = torch.stack([g.above_epsilon * g.numel for g in traced]).sum(0)
    return shares / sum(g.numel for g in traced)


GRADIENT_ABOVE_EPSILON = Measurement(
    "gradient-above-epsilon", measure, "share of gradient entries of at least 10 ε, ε = 1e-8"
)
