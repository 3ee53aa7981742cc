from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer, Vector

ATTENTION = Sublayer(
    name="attention",
    branch=(
        "softmax((x*query + query_bias)*T(x*key + key_bias))"
        "*(x*value + value_bias)*output + output_bias"
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
    summary="self-attention",
    source="Su, §Self-attention; layer cake, §4",
)
