from deepnet_theory.definitions.scheme import Scheme

B2T = Scheme(
    name="b2t",
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    optimizer="adam",
    summary="post-LN with a skip from a layer's bottom to its top, past the norm between",
    source="Takase et al., arXiv 2206.00330",
    mind="the equation leaves the skip out",
    streams=2,
)
