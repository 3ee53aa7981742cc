from deepnet_theory.definitions.sublayer import Sublayer

FFN_SWIGLU = Sublayer(
    branch="hadamard(phi(x*gate), x*up)*down",
    summary="gated feed-forward, three scaled matrices and no biases",
    source="Shazeer, arXiv 2002.05202",
)
