from deepnet_theory.definitions.optimizer import Optimizer, Reference

SIGNSGD = Optimizer(
    update="-eta*sign(g)",
    summary="sign of the gradient",
    source="Bernstein et al., arXiv 1802.04434",
    reference=Reference(
        "pytorch_optimizer:SignSGD", options=(("momentum", 0.0),), requires="verify"
    ),
    practice="-eta*(sign(g) + decay*theta)",
)
