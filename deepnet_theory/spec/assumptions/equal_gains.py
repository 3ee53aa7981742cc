from deepnet_theory.spec.assumption import Assumption

EQUAL_GAINS = Assumption(
    name="equal-gains",
    statement="all scaled matrices of a branch start with the same gain",
    source="Su, §First conclusions",
)
