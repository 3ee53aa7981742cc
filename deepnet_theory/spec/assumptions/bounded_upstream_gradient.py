from deepnet_theory.spec.assumption import Assumption

BOUNDED_UPSTREAM_GRADIENT = Assumption(
    name="bounded-upstream-gradient",
    statement="the gradient with respect to a sublayer's output is of order one in depth",
    measurement="upstream_gradient",
    slope=0.0,
    source="Su, §Feed-forward gradient and §Post-hoc analysis",
)
