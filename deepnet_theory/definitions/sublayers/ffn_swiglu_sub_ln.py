from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer, Vector

FFN_SWIGLU_SUB_LN = Sublayer(
    name="ffn-swiglu-sub-ln",
    branch="norm(hadamard(phi(x*gate), x*up), inner_gain, inner_bias)*down",
    matrices=(
        Matrix("gate", Role.UNSCALED, "d", "hidden"),
        Matrix("up", Role.UNSCALED, "d", "hidden"),
        Matrix("down", Role.SCALED, "hidden", "d"),
    ),
    vectors=(
        Vector("inner_gain", Role.NORM_GAIN, "hidden"),
        Vector("inner_bias", Role.NORM_BIAS, "hidden"),
    ),
    summary="gated feed-forward with a norm before its last matrix",
    source="Ma et al., BitNet b1.58, arXiv 2402.17764, as its code has it",
)
