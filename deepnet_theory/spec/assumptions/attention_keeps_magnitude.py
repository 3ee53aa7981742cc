from deepnet_theory.spec.assumption import Assumption

ATTENTION_KEEPS_MAGNITUDE = Assumption(
    name="attention-keeps-magnitude",
    statement=(
        "a softmax average of tokens has the tokens' magnitude up to a constant, "
        "which needs correlated tokens or concentrated weights"
    ),
    measurement="attention_average",
    slope=0.0,
    source="layer cake, §4.1",
)
