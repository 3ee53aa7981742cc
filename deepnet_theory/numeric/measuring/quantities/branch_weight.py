"""The weight of a branch in its residual sum."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The root mean square over sublayers of ‖G‖/‖αx‖: (seeds,)."""
    return probe.trace.over_sublayers("branch_weight").square().mean(0).sqrt()


BRANCH_WEIGHT = Measurement("branch-weight", measure, "‖G‖/‖αx‖, root mean square over sublayers")
