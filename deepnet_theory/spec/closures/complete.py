from deepnet_theory.spec.closure import Closure

COMPLETE = Closure(
    name="complete",
    conditions=(("rho", "1"),),
    knobs=("alpha", "beta", "rate"),
    summary="every order of an update is of order one in depth, at the same learning rate",
    source="derived here; for pre-LN compare Dey et al., arXiv 2505.01618",
)
