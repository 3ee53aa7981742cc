from deepnet_theory.spec.parametrisation import Column, Parametrisation

MUP_TABLE_3 = Parametrisation(
    name="mup-table-3",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1/d"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "1/d", "head": "1/d", "bias": "1"}),
        Column("sgd", {"embedding": "d", "hidden": "1", "head": "1/d", "bias": "d"}),
    ),
    summary="maximal update, the head drawn small",
    scores="1/k",
    source="Yang et al., arXiv 2203.03466, Table 3",
)
