from deepnet_theory.definitions.placement import Placement

NO_NORM = Placement(
    name="no-norm",
    equation="x + branch(x)",
    final_norm=True,
    summary="no norm but the last one, for a sublayer beside others that have theirs",
    source="He et al., arXiv 1603.05027, the identity mapping",
)
