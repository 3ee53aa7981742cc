from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer, Vector

CROSS = Sublayer(
    name="cross",
    branch=(
        "softmax((x*query + query_bias)*T(memory*key + key_bias))"
        "*(memory*value + value_bias)*output + output_bias"
    ),
    matrices=(
        Matrix("query", Role.UNSCALED),
        Matrix("key", Role.UNSCALED),
        Matrix("value", Role.SCALED),
        Matrix("output", Role.SCALED),
    ),
    vectors=(
        Vector("query_bias", Role.QUERY_BIAS),
        Vector("key_bias", Role.KEY_BIAS),
        Vector("value_bias", Role.INNER_BIAS),
        Vector("output_bias", Role.OUTPUT_BIAS),
    ),
    summary="cross-attention to the encoder's output",
    source="DeepNet, arXiv 2203.00555, §4.2",
)
