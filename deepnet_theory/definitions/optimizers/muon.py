from deepnet_theory.definitions.optimizer import Optimizer

MUON = Optimizer(
    update="-eta*sqrt(max(1, rows(theta)/columns(theta)))*polar(g)",
    summary="Muon as torch ships it: the polar factor of the gradient",
    mind="Newton-Schulz iterations only approach the polar factor, and not at low rank",
    source="Jordan et al., 2024; torch.optim.Muon, adjust_lr_fn 'original'",
    momentum=0.95,
    practice=(
        "-eta*(sqrt(max(1, rows(theta)/columns(theta)))*polar(g/max(norm(g), epsilon))"
        " + decay*theta)"
    ),
    epsilon=1e-07,
)
