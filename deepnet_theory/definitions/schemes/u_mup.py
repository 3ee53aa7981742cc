from deepnet_theory.definitions.scheme import RuleEntry, Scheme

U_MUP = Scheme(
    equation="(alpha*x + branch(norm(x)))*(1 + alpha**2)**(-1/2)",
    optimizer="adam",
    parts=(RuleEntry("encoder", alpha="sqrt(2*l)"),),
    summary="pre-LN, stream and branch weighted so that the variance stays 1",
    source="Blake et al., arXiv 2407.17465",
    norm="rms",
    rates={"scaled": "(2*N)**(-1/2)", "unscaled": "(2*N)**(-1/2)"},
    mind="at residual ratios 1; the published index counts sublayers",
)
