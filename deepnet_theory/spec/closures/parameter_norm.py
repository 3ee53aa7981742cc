from deepnet_theory.spec.closure import Closure

PARAMETER_NORM = Closure(
    name="parameter-norm",
    conditions=(("sqrt(m)*beta", "1/alpha"),),
    summary="the norm of the branch's gains is the inverse of the residual multiplier",
    source="layer cake, §4.3",
)
