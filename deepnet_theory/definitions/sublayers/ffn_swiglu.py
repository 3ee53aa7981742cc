from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer

FFN_SWIGLU = Sublayer(
    name="ffn-swiglu",
    branch="hadamard(phi(x*gate), x*up)*down",
    matrices=(
        Matrix("gate", Role.SCALED, "d", "hidden"),
        Matrix("up", Role.SCALED, "d", "hidden"),
        Matrix("down", Role.SCALED, "hidden", "d"),
    ),
    summary="gated feed-forward, three scaled matrices and no biases",
    source="Shazeer, arXiv 2002.05202",
)
