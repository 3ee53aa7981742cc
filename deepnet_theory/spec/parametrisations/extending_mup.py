from deepnet_theory.spec.parametrisation import Column, Parametrisation

EXTENDING_MUP = Parametrisation(
    name="extending-mup",
    init={"hidden": "d**(-1/2)"},
    columns=(
        Column("adamw", {"hidden": "1/d"}),
        Column("lamb", {"hidden": "1"}),
        Column("muon", {"hidden": "1"}),
        Column("shampoo", {"hidden": "1"}),
    ),
    summary="the spectral condition for AdamW, LAMB, Muon and Shampoo",
    source="Gupta et al., arXiv 2602.20937",
    mind="hidden matrices alone; its table is read at second hand",
)
