"""ReLU's mask as a coin."""

from deepnet_theory.spec.assumption import Assumption

INDEPENDENT_MASK = Assumption(
    name="independent-mask",
    statement=(
        "which hidden units are active is a fair coin for each unit, independent of the weights"
    ),
    source="layer cake, §5.1",
)
