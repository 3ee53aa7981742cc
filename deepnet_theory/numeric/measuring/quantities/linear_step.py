"""How far the measured step is from linear."""

import torch
from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The second-order part of ΔF, as a share; seen on one seed, so it stands for all."""
    return torch.full_like(probe.values, probe.model_update.second_order)


LINEAR_STEP = Measurement("linear-step", measure, "the second-order part of ΔF, as a share")
