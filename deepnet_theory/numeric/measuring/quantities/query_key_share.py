"""What queries and keys contribute to the model update."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """‖ΔF‖ of stepping queries and keys alone, as a share of ‖ΔF‖: (seeds,)."""
    return probe.share(lambda d: d.name in ("query", "key")) / probe.values


QUERY_KEY_SHARE = Measurement(
    "query-key-share", measure, "‖ΔF‖ of queries and keys alone, over ‖ΔF‖"
)
