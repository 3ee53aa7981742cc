"""No norm and no warm-up; value, output, feed-forward and embedding drawn small."""

from deepnet_theory.spec.scheme import Scheme, SchemePart

T_FIXUP = Scheme(
    name="t-fixup",
    equation="x + branch(x)",
    final_norm=False,
    optimizer="adam",
    parts=(
        SchemePart(
            "encoder",
            gains={
                "value": "0.67*N**(-1/4)",
                "output": "0.67*N**(-1/4)",
                "fc1": "0.67*N**(-1/4)",
                "fc2": "0.67*N**(-1/4)",
            },
            embedding="(9*N)**(-1/4)",
        ),
        SchemePart(
            "decoder",
            gains={
                "value": "(9*M)**(-1/4)",
                "output": "(9*M)**(-1/4)",
                "fc1": "(9*M)**(-1/4)",
                "fc2": "(9*M)**(-1/4)",
            },
            embedding="(9*M)**(-1/4)",
        ),
    ),
    summary="no norm and no warm-up; value, output, feed-forward and embedding drawn small",
    source="Huang et al. 2020, ICML; released code: the encoder by 0.67 N^(-1/4)",
    mind="derived for as many encoder as decoder layers",
)
