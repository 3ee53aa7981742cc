"""Pre-LN, the branch divided by sqrt(2N), every rate too, under an update of the weight's norm."""

from deepnet_theory.spec.scheme import Scheme, SchemePart

HYPERP = Scheme(
    name="hyperp",
    equation="x + branch(norm(x))/alpha",
    final_norm=True,
    optimizer="muon-h",
    parts=(SchemePart("encoder", alpha="sqrt(2*N)"),),
    summary="pre-LN, the branch divided by sqrt(2N), every rate by sqrt(N)",
    source="arXiv 2603.28743; microsoft/ArchScale, pretrain.py, lit_gpt/model.py",
    norm="rms",
    rates={
        "scaled": "N**(-1/2)",
        "unscaled": "N**(-1/2)",
        "norm-gain": "N**(-1/2)",
        "norm-bias": "N**(-1/2)",
        "output-bias": "N**(-1/2)",
        "inner-bias": "N**(-1/2)",
        "query-bias": "N**(-1/2)",
    },
    mind=(
        "each weight is drawn back to its norm after a step; there width goes with depth, and "
        "the factor 1/N of AdamW's matrices is that of the width"
    ),
)
