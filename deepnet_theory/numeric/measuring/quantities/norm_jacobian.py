"""The spectral size of the norms' Jacobians."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The greatest √d/‖Pz‖ over the norms, z in units of x: (seeds,)."""
    return probe.trace.over_sublayers("norm_jacobian").amax(0)


NORM_JACOBIAN = Measurement("norm-jacobian", measure, "√d/‖Pz‖, the greatest over norms")
