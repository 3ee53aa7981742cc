from deepnet_theory.spec.assumption import Assumption

GRADIENT_ABOVE_EPSILON = Assumption(
    name="gradient-above-epsilon",
    statement=(
        "gradient entries are far above the optimizer's epsilon, "
        "so that a normalised step is a sign step"
    ),
    measurement="gradient_above_epsilon",
    at_least=0.9,
    source="Su, §Multiple optimizers",
)
