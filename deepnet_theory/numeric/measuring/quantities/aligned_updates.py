"""Whether the sublayers' changes of the output add in one direction."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """‖Σ ΔF_l‖ / Σ ‖ΔF_l‖ of single-sublayer steps: (seeds,)."""
    return probe.values / probe.sum_of_sublayer_updates


ALIGNED_UPDATES = Measurement(
    "aligned-updates", measure, "‖Σ ΔF_l‖ / Σ ‖ΔF_l‖, 1 where all point one way"
)
