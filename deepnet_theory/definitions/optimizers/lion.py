from deepnet_theory.definitions.optimizer import Optimizer, Reference

LION = Optimizer(
    update="-eta*sign(g)",
    summary="Lion: sign of the interpolated momentum",
    source="Chen et al., arXiv 2302.06675",
    reference=Reference(
        "pytorch_optimizer:Lion", options=(("weight_decay", 0.0),), requires="verify"
    ),
    practice="-eta*(sign(g) + decay*theta)",
    kept="-eta*sign(g)",
)
