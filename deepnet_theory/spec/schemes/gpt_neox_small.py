from deepnet_theory.spec.scheme import Scheme, SchemePart

GPT_NEOX_SMALL = Scheme(
    name="gpt-neox-small",
    equation="x + branch(norm(x))",
    final_norm=True,
    optimizer="adam",
    parts=(SchemePart("encoder"),),
    summary="pre-LN, every matrix drawn at sqrt(2/(5d))",
    std="sqrt(2/(5*d))",
    source="GPT-NeoX, released code, small_init; Nguyen and Salazar, arXiv 1910.05895",
)
