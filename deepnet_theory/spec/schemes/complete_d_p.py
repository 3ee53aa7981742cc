"""Pre-LN, the branch divided by N, every rate as it is."""

from deepnet_theory.spec.scheme import Scheme, SchemePart

COMPLETE_D_P = Scheme(
    name="complete-d-p",
    equation="x + branch(norm(x))/alpha",
    final_norm=True,
    optimizer="adamw",
    parts=(SchemePart("encoder", alpha="N"),),
    summary="pre-LN, the branch divided by N, every rate as it is",
    source="Mlodozeniec et al., arXiv 2512.22382, Table 1, at alpha = 1",
    epsilon={
        "scaled": "1/N",
        "unscaled": "1/N",
        "norm-gain": "1/N",
        "norm-bias": "1/N",
        "output-bias": "1/N",
        "inner-bias": "1/N",
    },
    mind="in depth it is completep: what differs is epsilon and the head, in width",
)
