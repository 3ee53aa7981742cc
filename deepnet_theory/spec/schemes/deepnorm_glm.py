"""DeepNorm's placement with the square root in place of the fourth root."""

from deepnet_theory.spec.scheme import Scheme, SchemePart

DEEPNORM_GLM = Scheme(
    name="deepnorm-glm",
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    optimizer="adam",
    parts=(
        SchemePart(
            "encoder",
            alpha="(2*N)**(1/2)",
            gains={
                "value": "(2*N)**(-1/2)",
                "output": "(2*N)**(-1/2)",
                "fc1": "(2*N)**(-1/2)",
                "fc2": "(2*N)**(-1/2)",
            },
        ),
    ),
    summary="DeepNorm's placement with the square root in place of the fourth root",
    source="GLM-130B, arXiv 2210.02414",
)
