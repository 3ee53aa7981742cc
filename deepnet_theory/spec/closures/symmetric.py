from deepnet_theory.spec.closure import Closure

SYMMETRIC = Closure(
    name="symmetric",
    conditions=(("beta", "1/alpha"),),
    summary="the initialisation gain is the inverse of the residual multiplier",
    source="Su, §First conclusions",
)
