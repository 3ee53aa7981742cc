from deepnet_theory.definitions.optimizer import Optimizer, Reference

SGD = Optimizer(
    update="-eta*g",
    summary="plain stochastic gradient descent",
    source="Su, §Multiple optimizers",
    reference=Reference("torch.optim:SGD"),
    practice="-eta*(g + decay*theta)",
)
