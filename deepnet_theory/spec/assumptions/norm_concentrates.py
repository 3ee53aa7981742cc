from deepnet_theory.spec.assumption import Assumption

NORM_CONCENTRATES = Assumption(
    name="norm-concentrates",
    statement="‖z‖ is near the root of E‖z‖², and z has no mean over its entries to speak of",
    measurement="norm_jacobian",
    slope=0.0,
    source="layer cake, §5.1",
)
