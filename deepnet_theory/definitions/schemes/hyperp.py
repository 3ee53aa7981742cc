from deepnet_theory.definitions.scheme import IN_STACK, RuleEntry, Scheme

HYPERP = Scheme(
    equation="x + branch(norm(x))/alpha",
    optimizer="muon-h",
    parts=(RuleEntry("encoder", alpha="sqrt(2*N)"),),
    summary="pre-LN, the branch divided by sqrt(2N), every rate by sqrt(N)",
    source="arXiv 2603.28743; microsoft/ArchScale, pretrain.py, lit_gpt/model.py",
    norm="rms",
    rates=dict.fromkeys(IN_STACK, "N**(-1/2)"),
    mind=(
        "each weight is drawn back to its norm after a step; there width goes with depth, and "
        "the factor 1/N of AdamW's matrices is that of the width"
    ),
)
