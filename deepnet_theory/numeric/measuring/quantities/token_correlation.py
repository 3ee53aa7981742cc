"""How alike the tokens are at the top of the stack."""

from torch import Tensor

from deepnet_theory.numeric.measuring.measurement import Measurement
from deepnet_theory.numeric.measuring.probe import Probe


def measure(probe: Probe) -> Tensor:
    """The mean cosine of two tokens at the last sublayer's input: (seeds,)."""
    return probe.trace.sublayers[-1].token_correlation


TOKEN_CORRELATION = Measurement(
    "token-correlation", measure, "mean cosine of two tokens at the last sublayer's input"
)
