from deepnet_theory.spec.assumption import Assumption

INDEPENDENT_SIGNAL = Assumption(
    name="independent-signal",
    statement=(
        "the back-propagated signals of different tokens are independent, centred and independent "
        "of the inputs they are paired with in the gradient"
    ),
    source="derived here",
)
