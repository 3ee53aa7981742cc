from deepnet_theory.spec.assumption import Assumption

UNIT_ACTIVATIONS = Assumption(
    name="unit-activations",
    statement="E x² = 1 for the entries of what a norm puts out, at every depth",
    measurement="activation_size",
    slope=0.0,
    source="layer cake, §4.2",
)
