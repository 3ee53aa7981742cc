from deepnet_theory.spec.parametrisation import Column, Parametrisation

MUP_TABLE_9 = Parametrisation(
    name="mup-table-9",
    init={"embedding": "d**(-1/2)", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    multiplier={"embedding": "sqrt(d)", "head": "d**(-1/2)", "bias": "sqrt(d)"},
    columns=(
        Column(
            "adam",
            {"embedding": "d**(-1/2)", "hidden": "1/d", "head": "d**(-1/2)", "bias": "d**(-1/2)"},
        ),
        Column("sgd", {"embedding": "1", "hidden": "1", "head": "1", "bias": "1"}),
    ),
    summary="maximal update, multipliers on embedding and head, one rate of SGD",
    scores="1/k",
    source="Yang et al., arXiv 2203.03466, Table 9",
)
