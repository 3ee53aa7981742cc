from deepnet_theory.spec.scheme import Scheme, SchemePart

MHC = Scheme(
    name="mhc",
    equation="x + branch(norm(x))",
    final_norm=True,
    optimizer="adamw",
    parts=(SchemePart("encoder"),),
    summary="four streams, mixed by doubly stochastic matrices between the branches",
    source="Xie et al., arXiv 2512.24880",
    norm="rms",
    mind="the equation is that of one stream alone, without what mixes the four",
    streams=4,
)
