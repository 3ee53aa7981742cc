"""What a branch makes of inputs of order one, its gains taken out."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The root mean square over sublayers of ‖G‖/(√d Πβ): (seeds,)."""
    return probe.trace.over_sublayers("branch_response").square().mean(0).sqrt()


BRANCH_INPUT_RESPONSE = Measurement(
    "branch-input-response", measure, "‖G‖/(√d Πβ), root mean square over sublayers"
)
