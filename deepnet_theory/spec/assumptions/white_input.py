from deepnet_theory.spec.assumption import Assumption

WHITE_INPUT = Assumption(
    name="white-input",
    statement=(
        "the entries of a sublayer's input have mean 0 and second moment 1 and are uncorrelated"
    ),
    measurement="activation_size",
    slope=0.0,
    source="layer cake, §5.1",
)
