from deepnet_theory.definitions.optimizer import Optimizer

MUON_MOONLIGHT = Optimizer(
    update="-eta*0.2*sqrt(max(rows(theta), columns(theta)))*polar(g)",
    summary="Muon at the root mean square of an Adam step",
    mind="Newton-Schulz iterations only approach the polar factor, and not at low rank",
    source="Liu et al., arXiv 2502.16982; torch.optim.Muon, adjust_lr_fn 'match_rms_adamw'",
    momentum=0.95,
    practice=(
        "-eta*(0.2*sqrt(max(rows(theta), columns(theta)))*polar(g/max(norm(g), epsilon))"
        " + decay*theta)"
    ),
    epsilon=1e-07,
)
