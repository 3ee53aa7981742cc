"""The gradient that arrives at the sublayers' outputs."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The greatest ‖∂L/∂x_{l+1}‖ over sublayers, for a loss that is one token's: (seeds,)."""
    return probe.trace.over_sublayers("upstream_gradient").amax(0)


UPSTREAM_GRADIENT = Measurement(
    "upstream-gradient", measure, "‖∂L/∂x_{l+1}‖ per token, the greatest over sublayers"
)
