from deepnet_theory.spec.scheme import Scheme

RESIDUAL = Scheme(
    name="residual",
    equation="norm(alpha*x + branch(x))",
    final_norm=True,
    optimizer="adam",
    summary="post-LN beside a second stream that no norm touches",
    source="Xie et al., arXiv 2304.14802",
    mind="the equation is that of one stream alone",
    streams=2,
)
