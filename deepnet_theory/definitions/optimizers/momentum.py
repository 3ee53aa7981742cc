from deepnet_theory.definitions.optimizer import Optimizer, Reference

MOMENTUM = Optimizer(
    update="-eta*g",
    summary="SGD with momentum: the first step has no history",
    mind="Nesterov's variant multiplies the first step by 1 + momentum",
    source="Polyak, 1964",
    reference=Reference("torch.optim:SGD", options=(("momentum", 0.9),)),
    practice="-eta*(g + decay*theta)",
    kept="-eta*g/memory",
)
