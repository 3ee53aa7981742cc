from deepnet_theory.spec.assumption import Assumption

SMALL_BRANCH_WEIGHT = Assumption(
    name="small-branch-weight",
    statement="the branch weight r = |G(x)|/|αx| does not grow with depth (leading orders: r → 0)",
    measurement="branch_weight",
    slope_at_most=0.0,
    source="layer cake, §4.2, third simplification",
)
