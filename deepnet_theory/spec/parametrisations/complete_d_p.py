from deepnet_theory.spec.parametrisation import EVERY, Column, Parametrisation

COMPLETE_D_P = Parametrisation(
    name="complete-d-p",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            dict.fromkeys(EVERY, "1") | {"hidden": "1/d", "head": "1/d"},
            epsilon=dict.fromkeys(EVERY, "1/(d*N)")
            | {"embedding": "1/d", "head": "1", "final-gain": "1"},
            decay={"embedding": "1", "hidden": "d", "head": "d"},
            decays="decoupled",
        ),
    ),
    summary="CompleteP without a multiplier on the head, epsilon of the embedding scaled too",
    source="Mlodozeniec et al., arXiv 2512.22382, Table 1, at alpha = 1",
    mind="multipliers of batch size and duration are left out",
)
