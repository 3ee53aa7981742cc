from deepnet_theory.definitions.optimizer import Optimizer

MUON_PLAIN = Optimizer(
    update="-eta*polar(g)",
    summary="Muon without a factor of the shape",
    mind="Newton-Schulz iterations only approach the polar factor, and not at low rank",
    source="Jordan et al., 2024",
    momentum=0.95,
    practice=("-eta*(polar(g/max(norm(g), epsilon)) + decay*theta)"),
    epsilon=1e-07,
)
