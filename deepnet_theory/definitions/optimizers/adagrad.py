from deepnet_theory.definitions.optimizer import Optimizer, Reference

ADAGRAD = Optimizer(
    update="-eta*sign(g)",
    summary="Adagrad with an empty accumulator",
    mind="a non-zero initial accumulator restores degree 1 in g",
    source="Duchi et al., 2011",
    reference=Reference("torch.optim:Adagrad"),
    practice="-eta*(g + decay*theta)/(abs(g + decay*theta) + epsilon)",
    epsilon=1e-10,
)
