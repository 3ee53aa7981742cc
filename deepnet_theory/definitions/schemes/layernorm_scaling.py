from deepnet_theory.definitions.scheme import RuleEntry, Scheme

LAYERNORM_SCALING = Scheme(
    equation="x + branch(norm(x)/alpha)",
    optimizer="adam",
    parts=(RuleEntry("encoder", alpha="sqrt(l)"),),
    summary="pre-LN, the norm of layer l divided by sqrt(l)",
    source="Sun et al., arXiv 2502.05795",
)
