from deepnet_theory.definitions.optimizer import Optimizer

SHAMPOO = Optimizer(
    update="-eta*polar(g)",
    summary="Shampoo without epsilon: L^(-1/4) g R^(-1/4) is the polar factor of g",
    mind="its epsilon matters for low-rank gradients",
    source="Gupta et al., arXiv 1802.09568",
)
