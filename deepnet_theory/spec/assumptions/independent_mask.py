from deepnet_theory.spec.assumption import Assumption

INDEPENDENT_MASK = Assumption(
    name="independent-mask",
    statement=(
        "which hidden units are active is a fair coin for each unit, independent of the weights "
        "(exact for the moments of z and of what Δx and ΔW change; not for ΔV, where the mean of "
        "the hidden units adds what the rows of ΔV have in common)"
    ),
    source="layer cake, §5.1",
)
