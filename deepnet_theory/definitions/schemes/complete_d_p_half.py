from deepnet_theory.definitions.scheme import IN_STACK, RuleEntry, Scheme

COMPLETE_D_P_HALF = Scheme(
    equation="x + branch(norm(x))/alpha",
    optimizer="adamw",
    parts=(RuleEntry("encoder", alpha="sqrt(N)"),),
    summary="pre-LN, the branch divided by sqrt(N), every rate in the stack too",
    source="Mlodozeniec et al., arXiv 2512.22382, Table 1, at alpha = 1/2",
    rates=dict.fromkeys(IN_STACK, "N**(-1/2)"),
    epsilon=dict.fromkeys(IN_STACK, "N**(-1/2)"),
    mind="the source leaves alpha between 1/2 and 1",
)
