from deepnet_theory.definitions.placement import Placement

BRANCH_MULTIPLIER = Placement(
    equation="x + branch(norm(x))/alpha",
    summary="Pre-LN with a multiplier on the branch",
    source="Dey et al., arXiv 2505.01618; Bordelon et al., arXiv 2309.16620",
)
