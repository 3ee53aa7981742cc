from deepnet_theory.spec.assumption import Assumption

NEAR_IDENTITY = Assumption(
    name="near-identity",
    statement=(
        "S r² (n S r² where n sublayers are one) stays bounded: the stack is near the identity in "
        "independent directions"
    ),
    measurement="self_consistency",
    slope_at_most=0.0,
    source="derived here; layer cake, §4.3",
)
