from deepnet_theory.definitions.optimizer import Optimizer, Reference, Running

SGD = Optimizer(
    update="-eta*g",
    summary="plain stochastic gradient descent",
    source="Su, §Multiple optimizers",
    reference=Reference("torch.optim:SGD"),
    running=Running("-eta*g"),
    practice="-eta*(g + decay*theta)",
)
