from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer, Vector

FFN = Sublayer(
    name="ffn",
    branch="phi(x*fc1 + fc1_bias)*fc2 + fc2_bias",
    matrices=(
        Matrix("fc1", Role.SCALED, "d", "hidden"),
        Matrix("fc2", Role.SCALED, "hidden", "d"),
    ),
    vectors=(
        Vector("fc1_bias", Role.INNER_BIAS, "hidden"),
        Vector("fc2_bias", Role.OUTPUT_BIAS),
    ),
    summary="feed-forward with one hidden layer",
    source="Su, §Feed-forward gradient; layer cake, §5.1",
)
