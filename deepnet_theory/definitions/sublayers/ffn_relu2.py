from deepnet_theory.definitions.sublayer import Sublayer

FFN_RELU2 = Sublayer(
    branch="phi(x*fc1 + fc1_bias)**2*fc2 + fc2_bias",
    summary="feed-forward with a squared activation, of degree 3 in its two matrices",
    source="So et al., Primer, arXiv 2109.08668; Nemotron-4, arXiv 2402.16819; karpathy/nanochat",
)
