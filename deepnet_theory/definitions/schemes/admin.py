from deepnet_theory.definitions.scheme import RuleEntry, Scheme

ADMIN = Scheme(
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    optimizer="adam",
    parts=(RuleEntry("encoder", alpha="sqrt(2*l)"),),
    summary="post-LN, the stream weighted by the profiled size of what was added before",
    source="Liu et al., arXiv 2004.08249",
    mind="omega is profiled; with Xavier matrices every branch adds a variance of order one",
)
