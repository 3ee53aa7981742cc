from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer, Vector

FFN_RELU2 = Sublayer(
    name="ffn-relu2",
    branch="phi(x*fc1 + fc1_bias)**2*fc2 + fc2_bias",
    matrices=(
        Matrix("fc1", Role.SCALED, "d", "hidden"),
        Matrix("fc2", Role.SCALED, "hidden", "d"),
    ),
    vectors=(
        Vector("fc1_bias", Role.INNER_BIAS, "hidden"),
        Vector("fc2_bias", Role.OUTPUT_BIAS),
    ),
    summary="feed-forward with a squared activation, of degree 3 in its two matrices",
    source="So et al., Primer, arXiv 2109.08668; Nemotron-4, arXiv 2402.16819; karpathy/nanochat",
)
