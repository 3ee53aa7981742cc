from deepnet_theory.definitions.scheme import RuleEntry, Scheme

NGPT = Scheme(
    equation="norm(x + (norm(branch(x)) - x)/alpha)",
    final_norm=False,
    optimizer="adam",
    parts=(RuleEntry("encoder", alpha="20"),),
    summary="a normalised step from the stream towards the normalised branch",
    source="Loshchilov et al., arXiv 2410.01131",
    norm="rms",
    mind="the step is learnt, 0.05 at first at every depth; matrices are normalised",
)
