from deepnet_theory.definitions.sublayer import Sublayer

CROSS = Sublayer(
    branch=(
        "softmax((x*query + query_bias)*T(memory*key + key_bias))"
        "*(memory*value + value_bias)*output + output_bias"
    ),
    summary="cross-attention to the encoder's output",
    source="DeepNet, arXiv 2203.00555, §4.2",
)
