from deepnet_theory.definitions.optimizer import Optimizer, Reference, Running

ADAM = Optimizer(
    update="-eta*sign(g)",
    summary="Adam: bias-corrected first step",
    mind="holds where |g| is far above epsilon",
    source="Su, §Multiple optimizers; Kingma & Ba, arXiv 1412.6980",
    reference=Reference("torch.optim:Adam"),
    running=Running("-eta*m/(sqrt(v) + epsilon)", first=0.9, second=0.999),
    practice="-eta*(g + decay*theta)/(abs(g + decay*theta) + epsilon)",
    epsilon=1e-08,
)
