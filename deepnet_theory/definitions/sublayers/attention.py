from deepnet_theory.definitions.sublayer import Sublayer

ATTENTION = Sublayer(
    branch=(
        "softmax((x*query + query_bias)*T(x*key + key_bias))"
        "*(x*value + value_bias)*output + output_bias"
    ),
    summary="self-attention",
    source="Su, §Self-attention; layer cake, §4",
)
