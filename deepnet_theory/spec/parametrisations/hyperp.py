from deepnet_theory.spec.parametrisation import Column, Parametrisation

HYPERP = Parametrisation(
    name="hyperp",
    init={"embedding": "1", "hidden": "d**(-1/2)"},
    branch="(2*N)**(-1/2)",
    columns=(
        Column("muon-h", {"hidden": "N**(-1/2)"}),
        Column("adamw", {"embedding": "N**(-1/2)", "gain": "N**(-1/2)"}),
    ),
    summary="MuonH on hidden matrices, AdamW on embedding and gains, one rate at every width",
    source="arXiv 2603.28743; microsoft/ArchScale, pretrain.py, lit_gpt/optim/muon.py",
    hybrid=True,
    mind="there width goes with depth, so that its one factor, in the depth, is of both",
)
