from deepnet_theory.definitions.optimizer import Optimizer, Reference

ADAFACTOR = Optimizer(
    update="-eta*max(1/1000, rms(theta))*sign(g)",
    summary=(
        "Adafactor with relative steps off: a rank-one second moment, exact on a rank-one gradient"
    ),
    mind="its floor of 1/1000 on rms(theta) turns it into Adam's class where it is reached",
    source="Shazeer & Stern, arXiv 1804.04235",
    reference=Reference("torch.optim:Adafactor"),
    practice="-eta*(max(1/1000, rms(theta))*sign(g) + decay*theta)",
    kept="-eta*max(1/1000, rms(theta))*g/sqrt(v)",
)
