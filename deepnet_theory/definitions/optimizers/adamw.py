from deepnet_theory.definitions.optimizer import Optimizer, Reference

ADAMW = Optimizer(
    update="-eta*sign(g)",
    summary="Adam with decoupled weight decay, here 0",
    mind="torch's default weight decay is 0.01, not 0",
    source="Loshchilov & Hutter, arXiv 1711.05101",
    reference=Reference("torch.optim:AdamW", options=(("weight_decay", 0.0),)),
    practice="-eta*(g/(abs(g) + epsilon) + decay*theta)",
    epsilon=1e-08,
    kept="-eta*g/sqrt(v)",
)
