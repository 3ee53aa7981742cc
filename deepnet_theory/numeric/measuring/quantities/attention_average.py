"""The size of a softmax average of tokens against the tokens'."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The root mean square over attentions of ‖softmax·x‖/‖x‖: (seeds,)."""
    return probe.trace.over_sublayers("attention_average").square().mean(0).sqrt()


ATTENTION_AVERAGE = Measurement(
    "attention-average", measure, "‖softmax·x‖/‖x‖, root mean square over attentions"
)
