from deepnet_theory.spec.assumption import Assumption

BOUNDED_NORM_JACOBIAN = Assumption(
    name="bounded-norm-jacobian",
    statement="the Jacobian of the normalisation is of order one in depth",
    measurement="norm_jacobian",
    slope=0.0,
    source="Su, §Feed-forward gradient",
)
