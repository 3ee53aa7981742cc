from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer

FFN_SWIGLU_GATED = Sublayer(
    name="ffn-swiglu-gated",
    branch="hadamard(softmax(x*router), hadamard(phi(x*gate), x*up))*down",
    matrices=(
        Matrix("router", Role.UNSCALED, "d", "hidden"),
        Matrix("gate", Role.SCALED, "d", "hidden"),
        Matrix("up", Role.SCALED, "d", "hidden"),
        Matrix("down", Role.SCALED, "hidden", "d"),
    ),
    summary="gated feed-forward, opened by a bounded gate of the token, such as a shared expert's",
    source="Qwen 2 MoE, arXiv 2407.10671",
)
