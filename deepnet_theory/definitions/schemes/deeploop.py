from deepnet_theory.definitions.scheme import ALL_SCALED, Scheme, SchemePart

DEEPLOOP = Scheme(
    name="deeploop",
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    optimizer="adam",
    parts=(
        SchemePart(
            "encoder", alpha="(2*N)**(1/2)", gains=dict.fromkeys(ALL_SCALED, "(8*N)**(-1/2)")
        ),
    ),
    uses="N/4",
    summary="DeepNorm of looped layers, its exponent 1/2 in place of 1/4; here 4 layers are looped",
    source="Li et al., arXiv 2607.13491",
    mind="N counts the layers of all loops",
)
