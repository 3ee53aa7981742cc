from deepnet_theory.definitions.scheme import ALL_SCALED, RuleEntry, Scheme

T_FIXUP = Scheme(
    equation="x + branch(x)",
    final_norm=False,
    optimizer="adam",
    parts=(
        RuleEntry(
            "encoder", gains=dict.fromkeys(ALL_SCALED, "0.67*N**(-1/4)"), embedding="(9*N)**(-1/4)"
        ),
        RuleEntry(
            "decoder", gains=dict.fromkeys(ALL_SCALED, "(9*M)**(-1/4)"), embedding="(9*M)**(-1/4)"
        ),
    ),
    summary="no norm and no warm-up; value, output, feed-forward and embedding drawn small",
    source="Huang et al. 2020, ICML; released code: the encoder by 0.67 N^(-1/4)",
    mind="derived for as many encoder as decoder layers",
)
