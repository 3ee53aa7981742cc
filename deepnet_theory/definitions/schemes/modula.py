from deepnet_theory.definitions.scheme import RuleEntry, Scheme

MODULA = Scheme(
    equation="(1 - 1/alpha)*x + branch(x)/alpha",
    final_norm=False,
    optimizer="muon",
    parts=(RuleEntry("encoder", alpha="2*N"),),
    summary="a convex sum of the stream and the branch",
    source="Large et al., arXiv 2405.14813",
)
