"""Softmax average."""

from deepnet_theory.spec.assumption import Assumption

SOFTMAX_AVERAGE = Assumption(
    name="softmax-average",
    statement="a softmax average of tokens has the magnitude of the tokens, in order",
    measurement="attention_average",
    slope=0.0,
    source="Su, §Self-attention; layer cake, §4.1",
)
