"""How far the activation is from positively homogeneous, on what the stack feeds it."""

import torch
from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The worst ‖φ(λz) − λφ(z)‖/‖λφ(z)‖ over sublayers, λ = 1/2 and 2: (seeds,)."""
    if all(s.inhomogeneity is None for s in probe.trace.sublayers):
        return torch.zeros_like(probe.values)  # no activation at all
    return probe.trace.over_sublayers("inhomogeneity").amax(0)


ACTIVATION_HOMOGENEITY = Measurement(
    "activation-homogeneity", measure, "‖φ(λz) − λφ(z)‖/‖λφ(z)‖, the greatest over sublayers"
)
