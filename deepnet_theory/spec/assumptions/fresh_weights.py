from deepnet_theory.spec.assumption import Assumption

FRESH_WEIGHTS = Assumption(
    name="fresh-weights",
    statement=(
        "a branch's weights are independent centred Gaussians of the stated variance and do not "
        "depend on the branch's input (true at initialisation, before the first step)"
    ),
    source="layer cake, §5.1",
)
