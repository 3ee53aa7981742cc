from deepnet_theory.spec.closure import Closure

UNIT_INIT = Closure(
    name="unit-init",
    conditions=(("beta", "1"),),
    summary="no change of the initialisation",
    source="Su, §First conclusions, second alternative",
)
