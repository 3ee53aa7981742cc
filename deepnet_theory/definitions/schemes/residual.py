from deepnet_theory.definitions.scheme import Scheme

RESIDUAL = Scheme(
    name="residual",
    equation="norm(x + branch(x)); y + branch(x)",
    output="x + norm(y)",
    final_norm=False,
    optimizer="adam",
    summary="post-LN beside a second stream that no norm touches",
    source="Xie et al., arXiv 2304.14802",
    mind="near the identity both streams move alike; its branches are as large as the stream",
)
