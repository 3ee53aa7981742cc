from deepnet_theory.spec.parametrisation import Column, Parametrisation

EVERETT_STANDARD = Parametrisation(
    name="everett-standard",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "1/d", "head": "1/d"}),
        Column("sgd", {"embedding": "sqrt(d)", "hidden": "d**(-1/2)", "head": "1/d"}),
        Column(
            "adam", {"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"}, alignment="none"
        ),
        Column(
            "sgd", {"embedding": "sqrt(d)", "hidden": "1", "head": "d**(-1/2)"}, alignment="none"
        ),
        Column("adafactor", {"embedding": "1", "hidden": "1", "head": "1"}, alignment="none"),
    ),
    summary="the standard parametrisation with a rate for every layer",
    source="Everett et al., arXiv 2407.05872, Table 1; rates as m-wojnar/maxP, utils.py, has them",
)
