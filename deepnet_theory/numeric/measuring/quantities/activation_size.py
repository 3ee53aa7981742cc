"""The size of what the norms put out."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The root mean square entry of the norms' outputs: (seeds,)."""
    return probe.trace.over_sublayers("norm_output").square().mean(0).sqrt()


ACTIVATION_SIZE = Measurement(
    "activation-size", measure, "root mean square entry of the norms' outputs"
)
