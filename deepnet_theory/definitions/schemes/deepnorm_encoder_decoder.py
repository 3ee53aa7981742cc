from deepnet_theory.definitions.scheme import ALL_SCALED, RuleEntry, Scheme

DEEPNORM_ENCODER_DECODER = Scheme(
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    optimizer="adam",
    parts=(
        RuleEntry(
            "encoder",
            alpha="0.81*(N**4*M)**(1/16)",
            gains=dict.fromkeys(ALL_SCALED, "0.87*(N**4*M)**(-1/16)"),
        ),
        RuleEntry(
            "decoder", alpha="(3*M)**(1/4)", gains=dict.fromkeys(ALL_SCALED, "(12*M)**(-1/4)")
        ),
    ),
    summary="DeepNorm's constants for an encoder and its decoder",
    source="Wang et al., arXiv 2203.00555, Figure 2",
)
