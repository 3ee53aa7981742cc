from deepnet_theory.definitions.placement import Placement

HYPER_CONNECTIONS = Placement(
    name="hyper-connections",
    equation="x + branch(norm(x)); y + branch(norm(x))",
    output="x + y",
    final_norm=True,
    summary="two streams as they start: a branch reads one, writes to both, and nothing is mixed",
    source="Zhu et al., arXiv 2409.19606, §2.3",
)
