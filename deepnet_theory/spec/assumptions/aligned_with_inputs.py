from deepnet_theory.spec.assumption import Assumption

ALIGNED_WITH_INPUTS = Assumption(
    name="aligned-with-inputs",
    statement=(
        "an update meets inputs like those that made it, and features move along the rows of the "
        "head, so that sums over the width add up"
    ),
    source="Yang et al., arXiv 2203.03466; Everett et al., arXiv 2407.05872",
)
