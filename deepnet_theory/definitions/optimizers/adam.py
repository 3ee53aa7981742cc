from deepnet_theory.definitions.optimizer import Optimizer, Reference

ADAM = Optimizer(
    update="-eta*sign(g)",
    summary="Adam: bias-corrected first step",
    mind="holds where |g| is far above epsilon",
    source="Su, §Multiple optimizers; Kingma & Ba, arXiv 1412.6980",
    reference=Reference("torch.optim:Adam"),
    practice="-eta*(g + decay*theta)/(abs(g + decay*theta) + epsilon)",
    epsilon=1e-08,
    kept="-eta*g/sqrt(v)",
)
