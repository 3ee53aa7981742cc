"""The gradient of the loss at the stack's output."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """‖∂L/∂F‖ for a loss that is one token's: (seeds,)."""
    return probe.trace.loss_gradient


LOSS_GRADIENT = Measurement("loss-gradient", measure, "‖∂L/∂F‖ per token")
