from deepnet_theory.definitions.sublayer import Sublayer

ATTENTION_GATED = Sublayer(
    branch=(
        "hadamard(softmax((x*query + query_bias)*T(x*key + key_bias))*(x*value + value_bias), "
        "softmax(x*gate))*output + output_bias"
    ),
    summary="self-attention with a bounded gate on what it mixes, computed of its input",
    source="Qiu et al., arXiv 2505.06708",
)
