from deepnet_theory.definitions.placement import Placement

RESIDUAL_DUAL = Placement(
    name="residual-dual",
    equation="norm(x + branch(x)/alpha); y + branch(x)/alpha",
    output="x + norm(y)",
    final_norm=False,
    summary="post-LN beside a second stream that no norm touches, with a branch multiplier",
    source="Xie et al., arXiv 2304.14802",
)
