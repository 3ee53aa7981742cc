from deepnet_theory.spec.parametrisation import Column, Parametrisation

EVERETT_MEAN_FIELD = Parametrisation(
    name="everett-mean-field",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "1/d"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "d**(-1/2)", "head": "1"}),
        Column("sgd", {"embedding": "d", "hidden": "d", "head": "d"}),
        Column("adam", {"embedding": "1", "hidden": "1", "head": "d**(-1/2)"}, alignment="none"),
        Column("sgd", {"embedding": "d", "hidden": "d**(3/2)", "head": "d"}, alignment="none"),
    ),
    summary="mean field with a rate for every layer",
    source="Everett et al., arXiv 2407.05872, Table 1; rates as m-wojnar/maxP, utils.py, has them",
)
