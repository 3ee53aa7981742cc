from deepnet_theory.definitions.scheme import RuleEntry, Scheme

SPECTRAL_WIDTH_DEPTH = Scheme(
    equation="x + branch(norm(x))/alpha",
    optimizer="muon-moonlight",
    parts=(RuleEntry("encoder", alpha="N"),),
    summary="pre-LN, the branch of two matrices or more divided by N, a normalised update",
    source="Zheng et al., arXiv 2603.00541, branches of two transformations and more",
)
