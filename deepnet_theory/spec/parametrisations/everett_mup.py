from deepnet_theory.spec.parametrisation import Column, Parametrisation

EVERETT_MUP = Parametrisation(
    name="everett-mup",
    init={"embedding": "d**(-1/2)", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    multiplier={"embedding": "sqrt(d)", "head": "d**(-1/2)"},
    columns=(
        Column("adam", {"embedding": "d**(-1/2)", "hidden": "1/d", "head": "d**(-1/2)"}),
        Column("sgd", {"embedding": "1", "hidden": "1", "head": "1"}),
        Column(
            "adam", {"embedding": "d**(-1/2)", "hidden": "d**(-1/2)", "head": "1"}, alignment="none"
        ),
        Column("sgd", {"embedding": "1", "hidden": "sqrt(d)", "head": "1"}, alignment="none"),
    ),
    summary="maximal update with a rate for every layer",
    source="Everett et al., arXiv 2407.05872, Table 1; rates as m-wojnar/maxP, utils.py, has them",
)
