from deepnet_theory.definitions.sublayer import Sublayer

FFN_SUB_LN = Sublayer(
    branch="norm(phi(x*fc1 + fc1_bias), inner_gain, inner_bias)*fc2 + fc2_bias",
    summary="feed-forward with a norm before its last matrix",
    source="Wang et al., Magneto, arXiv 2210.06423",
)
