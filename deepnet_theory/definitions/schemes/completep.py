from deepnet_theory.definitions.scheme import RuleEntry, Scheme

COMPLETEP = Scheme(
    equation="x + branch(norm(x))/alpha",
    optimizer="adamw",
    parts=(RuleEntry("encoder", alpha="N"),),
    summary="pre-LN, the branch divided by N, every rate as it is",
    source="Dey et al., arXiv 2505.01618, Table 1",
    epsilon=dict.fromkeys(
        ("scaled", "unscaled", "norm-gain", "norm-bias", "output-bias", "inner-bias"), "1/N"
    ),
    mind="multipliers of the width are left out; Complete(d)P at alpha = 1 is the same in depth",
)
