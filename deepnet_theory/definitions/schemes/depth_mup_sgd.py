from deepnet_theory.definitions.scheme import RuleEntry, Scheme

DEPTH_MUP_SGD = Scheme(
    equation="x + branch(norm(x))/alpha",
    optimizer="sgd",
    parts=(RuleEntry("encoder", alpha="sqrt(N)"),),
    summary="pre-LN, the branch divided by sqrt(N), SGD's rate as it is",
    source="Yang et al., arXiv 2310.02244, for SGD",
    mind="stated for branches of one matrix",
)
