from deepnet_theory.definitions.placement import Placement

SANDWICH_LN = Placement(
    equation="x + norm(branch(norm(x)))/alpha",
    summary="a norm before and one after the branch (CogView)",
    source="Ding et al., arXiv 2105.13290",
)
