from deepnet_theory.definitions.scheme import Scheme

SKIPINIT = Scheme(
    name="skipinit",
    equation="x + learnt(0)*branch(x)",
    final_norm=False,
    optimizer="momentum",
    summary="a learnt scalar on every branch of a network without norm, 0 at first",
    source="De and Smith, arXiv 2002.10444",
    mind="published for residual convolutions; the same equation as ReZero under another optimizer",
)
