from deepnet_theory.definitions.scheme import Scheme

REZERO = Scheme(
    name="rezero",
    equation="x + learnt(0)*branch(x)",
    final_norm=False,
    optimizer="adam",
    summary="no norm; a learnt scalar on every branch, 0 at first",
    source="Bachlechner et al., arXiv 2003.04887",
)
