from deepnet_theory.definitions.scheme import Scheme, SchemePart

MHC = Scheme(
    name="mhc",
    equation="; ".join(4 * ["(x + y + z + w)/4 + branch(norm((x + y + z + w)/2))"]),
    output="x + y + z + w",
    final_norm=True,
    optimizer="adamw",
    parts=(SchemePart("encoder"),),
    summary="four streams, mixed by doubly stochastic matrices between the branches",
    source="Xie et al., arXiv 2512.24880",
    norm="rms",
    mind="written with a uniform mix; every doubly stochastic one keeps the sum of the streams",
)
