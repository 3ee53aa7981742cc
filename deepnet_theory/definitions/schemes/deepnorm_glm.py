from deepnet_theory.definitions.scheme import ALL_SCALED, RuleEntry, Scheme

DEEPNORM_GLM = Scheme(
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    optimizer="adam",
    parts=(
        RuleEntry(
            "encoder", alpha="(2*N)**(1/2)", gains=dict.fromkeys(ALL_SCALED, "(2*N)**(-1/2)")
        ),
    ),
    summary="DeepNorm's placement with the square root in place of the fourth root",
    source="GLM-130B, arXiv 2210.02414",
)
