from deepnet_theory.spec.assumption import Assumption

INDEPENDENT_SIGNS = Assumption(
    name="independent-signs",
    statement=(
        "a branch's output is independent of the direction of its input, afresh in every "
        "sublayer, so that a signal passes the stack with mean-square gain 1"
    ),
    measurement="upstream_gradient",
    slope=0.0,
    source="layer cake, §4.3, the random variable I",
)
