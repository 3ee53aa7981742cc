"""Pre-LN, the branch divided by N, every rate as it is."""

from deepnet_theory.spec.scheme import Scheme, SchemePart

COMPLETEP = Scheme(
    name="completep",
    equation="x + branch(norm(x))/alpha",
    final_norm=True,
    optimizer="adamw",
    parts=(SchemePart("encoder", alpha="N"),),
    summary="pre-LN, the branch divided by N, every rate as it is",
    source="Dey et al., arXiv 2505.01618, Table 1",
    epsilon={
        "scaled": "1/N",
        "unscaled": "1/N",
        "norm-gain": "1/N",
        "norm-bias": "1/N",
        "output-bias": "1/N",
        "inner-bias": "1/N",
    },
    mind="the widths' multipliers are not of the depth",
)
