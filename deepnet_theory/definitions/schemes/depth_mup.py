from deepnet_theory.definitions.scheme import RuleEntry, Scheme

DEPTH_MUP = Scheme(
    equation="x + branch(norm(x))/alpha",
    optimizer="adam",
    parts=(RuleEntry("encoder", alpha="sqrt(N)"),),
    summary="pre-LN, the branch divided by sqrt(N), Adam's rate too",
    source="Yang et al., arXiv 2310.02244, for Adam",
    rates={"scaled": "N**(-1/2)", "unscaled": "N**(-1/2)"},
    epsilon={"scaled": "N**(-1/2)", "unscaled": "N**(-1/2)"},
    mind="stated for branches of one matrix",
)
