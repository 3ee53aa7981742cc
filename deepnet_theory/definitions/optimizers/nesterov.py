from deepnet_theory.definitions.optimizer import Optimizer, Reference

NESTEROV = Optimizer(
    update="-eta*(1 + 0.9)*g",
    summary="SGD with Nesterov momentum 0.9",
    source="Nesterov, 1983",
    reference=Reference("torch.optim:SGD", options=(("momentum", 0.9), ("nesterov", True))),
    practice="-eta*(1 + 0.9)*(g + decay*theta)",
    kept="-eta*g/memory",
)
