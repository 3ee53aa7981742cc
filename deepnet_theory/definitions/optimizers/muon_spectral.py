from deepnet_theory.definitions.optimizer import Optimizer

MUON_SPECTRAL = Optimizer(
    update="-eta*sqrt(rows(theta)/columns(theta))*polar(g)",
    summary="Muon whose step moves every output by the same root mean square",
    mind="Newton-Schulz iterations only approach the polar factor, and not at low rank",
    source="Bernstein and Newhouse, arXiv 2410.21265; Pethick et al., arXiv 2502.07529",
    momentum=0.95,
    practice=(
        "-eta*(sqrt(rows(theta)/columns(theta))*polar(g/max(norm(g), epsilon)) + decay*theta)"
    ),
    epsilon=1e-07,
)
