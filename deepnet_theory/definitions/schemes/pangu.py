from deepnet_theory.definitions.scheme import ALL_SCALED, RuleEntry, Scheme

PANGU = Scheme(
    equation="x + norm(branch(norm(x)))/alpha",
    optimizer="adamw",
    parts=(
        RuleEntry(
            "encoder",
            alpha="sqrt(N)",
            gains=dict.fromkeys(("query", "key", *ALL_SCALED), "(2*N)**(-1/2)"),
        ),
    ),
    summary="sandwich-LN whose outer norm starts at 1/sqrt(N), every matrix drawn small",
    source="Yin et al., Pangu Ultra, arXiv 2504.07866, depth-scaled sandwich norm and TinyInit",
    norm="rms",
    mind=(
        "there 1/sqrt(N) is where the outer norm's gain starts and not a multiplier: its own step "
        "changes the output sqrt(N) times as much as is said here; constants are left out. What is "
        "measured grows more slowly than N at a norm's usual epsilon: the small branch sinks "
        "under it at the measured depths. With a vanishing one it grows as N"
    ),
)
