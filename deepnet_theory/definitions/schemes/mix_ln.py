from deepnet_theory.definitions.scheme import Scheme

MIX_LN = Scheme(
    name="mix-ln",
    equation="x + branch(norm(x))",
    final_norm=True,
    optimizer="adam",
    summary="post-LN in the first quarter of the layers, pre-LN above",
    source="Li, Yin and Liu, arXiv 2412.13795",
    first="norm(x + branch(x))",
    first_layers="N/4",
)
