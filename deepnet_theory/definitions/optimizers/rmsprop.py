from deepnet_theory.definitions.optimizer import Optimizer, Reference

RMSPROP = Optimizer(
    update="-eta*sign(g)/sqrt(1 - 0.99)",
    summary="RMSProp with smoothing 0.99",
    mind="not bias-corrected: the first step is ten times Adam's",
    source="Hinton, 2012",
    reference=Reference("torch.optim:RMSprop"),
    practice="-eta*(g + decay*theta)/(sqrt(1 - 0.99)*abs(g + decay*theta) + epsilon)",
    epsilon=1e-08,
    kept="-eta*g/sqrt(v)",
)
