from deepnet_theory.spec.parametrisation import ANY, Column, Parametrisation

SP = Parametrisation(
    name="sp",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    columns=(
        Column(ANY, {"embedding": "1", "hidden": "1", "head": "1", "gain": "1", "bias": "1"}),
    ),
    summary="standard: every matrix drawn by its fan-in, one learning rate",
    scores="1/sqrt(k)",
    source="practice; Yang et al., arXiv 2203.03466, Table 3, in grey",
)
