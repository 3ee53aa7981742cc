from deepnet_theory.spec.assumption import Assumption

BOUNDED_LOSS_GRADIENT = Assumption(
    name="bounded-loss-gradient",
    statement="‖∂L/∂F‖ = O(1): the loss's gradient at the stack's output does not grow with depth",
    measurement="loss_gradient",
    slope=0.0,
    source="layer cake, §4.3",
)
