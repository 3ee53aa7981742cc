from deepnet_theory.spec.parametrisation import Column, Parametrisation

NANOCHAT = Parametrisation(
    name="nanochat",
    init={"embedding": "0.8", "hidden": "d**(-1/2)", "residual-output": "0", "head": "0.001"},
    columns=(
        Column("muon", {"hidden": "1"}, decay={"hidden": "1"}, decays="decoupled"),
        Column(
            "adamw",
            {"embedding": "d**(-1/2)", "head": "d**(-1/2)"},
            epsilon={"embedding": "1", "head": "1"},
            decay={"embedding": "1", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="Muon on matrices, AdamW at 1/sqrt(d) on embedding and head",
    hybrid=True,
    source="karpathy/nanochat, nanochat/gpt.py, nanochat/optim.py",
    mind="queries and keys are normalised, logits capped, norms have no gains",
)
