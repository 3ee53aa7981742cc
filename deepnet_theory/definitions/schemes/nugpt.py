from deepnet_theory.definitions.scheme import RuleEntry, Scheme

NUGPT = Scheme(
    equation="norm(x + (norm(branch(x)) - x)/alpha)",
    final_norm=False,
    optimizer="adam",
    parts=(RuleEntry("encoder", alpha="20*N"),),
    summary="a normalised Transformer, its steps divided by the depth",
    source="Shigida, Hanin & Gromov, arXiv 2604.27077, Table 1",
    norm="rms",
    mind="sizes there are relative to a base, here of one layer; the step is learnt",
)
