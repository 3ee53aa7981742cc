from deepnet_theory.spec.assumption import Assumption

HOMOGENEOUS_ACTIVATION = Assumption(
    name="homogeneous-activation",
    statement=(
        "the activation is positively homogeneous of degree "
        "1 (ReLU exactly, GELU and SiLU approximately)"
    ),
    measurement="activation_homogeneity",
    at_most=0.5,
    source="Su, §Feed-forward gradient",
)
