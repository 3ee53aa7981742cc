from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer, Vector

FFN_SUB_LN = Sublayer(
    name="ffn-sub-ln",
    branch="norm(phi(x*fc1 + fc1_bias), inner_gain, inner_bias)*fc2 + fc2_bias",
    matrices=(
        Matrix("fc1", Role.UNSCALED, "d", "hidden"),
        Matrix("fc2", Role.SCALED, "hidden", "d"),
    ),
    vectors=(
        Vector("fc1_bias", Role.INNER_BIAS, "hidden"),
        Vector("inner_gain", Role.NORM_GAIN, "hidden"),
        Vector("inner_bias", Role.NORM_BIAS, "hidden"),
        Vector("fc2_bias", Role.OUTPUT_BIAS),
    ),
    summary="feed-forward with a norm before its last matrix",
    source="Wang et al., Magneto, arXiv 2210.06423",
)
