from deepnet_theory.spec.assumption import Assumption

UNIT_BRANCH = Assumption(
    name="unit-branch",
    statement="a branch with its gains taken out maps inputs of order one to outputs of order one",
    measurement="branch_input_response",
    slope=0.0,
    source="Su, §Feed-forward gradient",
)
