from deepnet_theory.spec.parametrisation import Column, Parametrisation

MUP = Parametrisation(
    name="mup",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "1/d", "head": "1", "bias": "1"}),
        Column("sgd", {"embedding": "d", "hidden": "1", "head": "d", "bias": "d"}),
    ),
    summary="maximal update, a multiplier on the head",
    scores="1/k",
    source="Yang et al., arXiv 2203.03466, Table 8",
)
