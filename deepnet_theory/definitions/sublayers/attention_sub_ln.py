from deepnet_theory.definitions.sublayer import Sublayer

ATTENTION_SUB_LN = Sublayer(
    branch=(
        "norm(softmax((x*query + query_bias)*T(x*key + key_bias))"
        "*(x*value + value_bias), inner_gain, inner_bias)*output + output_bias"
    ),
    summary="self-attention with a norm before its last matrix",
    source="Wang et al., Magneto, arXiv 2210.06423",
)
