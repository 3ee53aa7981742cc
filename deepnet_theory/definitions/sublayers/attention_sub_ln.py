from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer, Vector

ATTENTION_SUB_LN = Sublayer(
    name="attention-sub-ln",
    branch=(
        "norm(softmax((x*query + query_bias)*T(x*key + key_bias))"
        "*(x*value + value_bias), inner_gain, inner_bias)*output + output_bias"
    ),
    matrices=(
        Matrix("query", Role.UNSCALED),
        Matrix("key", Role.UNSCALED),
        Matrix("value", Role.UNSCALED),
        Matrix("output", Role.SCALED),
    ),
    vectors=(
        Vector("query_bias", Role.QUERY_BIAS),
        Vector("key_bias", Role.KEY_BIAS),
        Vector("value_bias", Role.INNER_BIAS),
        Vector("inner_gain", Role.NORM_GAIN),
        Vector("inner_bias", Role.NORM_BIAS),
        Vector("output_bias", Role.OUTPUT_BIAS),
    ),
    summary="self-attention with a norm before its last matrix",
    source="Wang et al., Magneto, arXiv 2210.06423",
)
