from deepnet_theory.definitions.scheme import Scheme

GPT_NEOX_SMALL = Scheme(
    equation="x + branch(norm(x))",
    optimizer="adam",
    summary="pre-LN, every matrix drawn at sqrt(2/(5d))",
    std="sqrt(2/(5*d))",
    source="GPT-NeoX, released code, small_init; Nguyen and Salazar, arXiv 1910.05895",
)
