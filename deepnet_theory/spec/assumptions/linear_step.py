from deepnet_theory.spec.assumption import Assumption

LINEAR_STEP = Assumption(
    name="linear-step",
    statement="the update is so small that the output changes linearly in it",
    measurement="linear_step",
    at_most=0.01,
    source="layer cake, §4.2; Su, §Increment explosion",
)
