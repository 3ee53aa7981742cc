from deepnet_theory.definitions.scheme import ALL_SCALED, RuleEntry, Scheme

DEEPNORM = Scheme(
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    optimizer="adam",
    parts=(
        RuleEntry(
            "encoder", alpha="(2*N)**(1/4)", gains=dict.fromkeys(ALL_SCALED, "(8*N)**(-1/4)")
        ),
    ),
    summary="post-LN, the stream multiplied, value, output and feed-forward drawn small",
    source="Wang et al., arXiv 2203.00555, Figure 2, encoder-only",
)
