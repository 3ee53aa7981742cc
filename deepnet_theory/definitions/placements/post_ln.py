from deepnet_theory.definitions.placement import Placement

POST_LN = Placement(
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    summary="Post-LN with a residual multiplier (DeepNorm)",
    source="DeepNet, arXiv 2203.00555, §3; Su, §Feed-forward gradient",
)
