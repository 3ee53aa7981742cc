"""Unit input."""

from deepnet_theory.spec.assumption import Assumption

UNIT_INPUT = Assumption(
    name="unit-input",
    statement="the input of every sublayer has entries of order one",
    measurement="activation_size",
    slope=0.0,
    source="Su, §Feed-forward gradient; layer cake, §5.1",
)
