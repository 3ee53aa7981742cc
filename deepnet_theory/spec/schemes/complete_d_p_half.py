"""Pre-LN, the branch divided by sqrt(N), every rate in the stack too."""

from deepnet_theory.spec.scheme import Scheme, SchemePart

COMPLETE_D_P_HALF = Scheme(
    name="complete-d-p-half",
    equation="x + branch(norm(x))/alpha",
    final_norm=True,
    optimizer="adamw",
    parts=(SchemePart("encoder", alpha="sqrt(N)"),),
    summary="pre-LN, the branch divided by sqrt(N), every rate in the stack too",
    source="Mlodozeniec et al., arXiv 2512.22382, Table 1, at alpha = 1/2",
    rates={
        "scaled": "N**(-1/2)",
        "unscaled": "N**(-1/2)",
        "norm-gain": "N**(-1/2)",
        "norm-bias": "N**(-1/2)",
        "output-bias": "N**(-1/2)",
        "inner-bias": "N**(-1/2)",
        "query-bias": "N**(-1/2)",
    },
    epsilon={
        "scaled": "N**(-1/2)",
        "unscaled": "N**(-1/2)",
        "norm-gain": "N**(-1/2)",
        "norm-bias": "N**(-1/2)",
        "output-bias": "N**(-1/2)",
        "inner-bias": "N**(-1/2)",
        "query-bias": "N**(-1/2)",
    },
    mind="the source leaves alpha between 1/2 and 1",
)
