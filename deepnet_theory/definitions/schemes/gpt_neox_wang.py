from deepnet_theory.definitions.scheme import RuleEntry, Scheme

GPT_NEOX_WANG = Scheme(
    equation="x + branch(norm(x))",
    optimizer="adam",
    parts=(RuleEntry("encoder", gains={"output": "sqrt(10)/N", "fc2": "sqrt(10)/N"}),),
    summary="pre-LN, sqrt(2/(5d)), and 2/(N sqrt(d)) for the residual projections",
    std="sqrt(2/(5*d))",
    source="GPT-NeoX-20B, arXiv 2204.06745, §2.3.1; released code, wang_init",
    mind="gains are against small_init: 2/(N sqrt(d)) is sqrt(10)/N of it",
)
