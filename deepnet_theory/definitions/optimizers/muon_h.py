from deepnet_theory.definitions.optimizer import Optimizer

MUON_H = Optimizer(
    update="-eta*norm(theta)*polar(g)/norm(polar(g))",
    summary="Muon whose step is a share of the matrix's norm",
    mind="Newton-Schulz iterations only approach the polar factor, and not at low rank",
    source="Wen et al., 2025, Hyperball (MuonH)",
    momentum=0.95,
    practice=("-eta*(norm(theta)*polar(g/max(norm(g), epsilon))/norm(polar(g)) + decay*theta)"),
    epsilon=1e-07,
)
