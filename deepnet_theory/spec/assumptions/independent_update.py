from deepnet_theory.spec.assumption import Assumption

INDEPENDENT_UPDATE = Assumption(
    name="independent-update",
    statement=(
        "the changes of one step are independent of what they are multiplied with: Δx of the "
        "branch's weights, Δθ of its weights and of its input (an optimizer's Δθ is made of "
        "exactly that input, so this fails by a factor of the width and never of the depth)"
    ),
    source="layer cake, §5.1",
)
