from deepnet_theory.definitions.sublayer import Sublayer

FFN_SWIGLU_SUB_LN = Sublayer(
    branch="norm(hadamard(phi(x*gate), x*up), inner_gain, inner_bias)*down",
    summary="gated feed-forward with a norm before its last matrix",
    source="Ma et al., BitNet b1.58, arXiv 2402.17764, as its code has it",
)
