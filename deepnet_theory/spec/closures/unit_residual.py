from deepnet_theory.spec.closure import Closure

UNIT_RESIDUAL = Closure(
    name="unit-residual",
    conditions=(("alpha", "1"),),
    summary="no residual multiplier",
    source="Su, §First conclusions, first alternative; §Multiple optimizers, LAMB",
)
