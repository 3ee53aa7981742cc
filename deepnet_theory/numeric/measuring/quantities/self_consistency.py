"""How far the whole stack is from the identity."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """S r², the sum over sublayers of the squared branch weight: (seeds,)."""
    return probe.trace.over_sublayers("branch_weight").square().sum(0)


SELF_CONSISTENCY = Measurement(
    "self-consistency", measure, "S r², the sum over sublayers of (‖G‖/‖αx‖)²"
)
