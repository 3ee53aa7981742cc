from deepnet_theory.definitions.placement import Placement

PRE_LN = Placement(
    equation="x + branch(norm(x))",
    summary="Pre-LN; the residual multiplier is fixed at 1",
    source="Pre/Post norm note, §1; Su, §Post-hoc analysis",
)
