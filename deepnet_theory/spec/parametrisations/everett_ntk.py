from deepnet_theory.spec.parametrisation import Column, Parametrisation

EVERETT_NTK = Parametrisation(
    name="everett-ntk",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"}),
        Column("sgd", {"embedding": "sqrt(d)", "hidden": "sqrt(d)", "head": "1"}),
        Column("adam", {"embedding": "1", "hidden": "1", "head": "1"}, alignment="none"),
        Column("sgd", {"embedding": "sqrt(d)", "hidden": "d", "head": "sqrt(d)"}, alignment="none"),
    ),
    summary="the neural tangent parametrisation with a rate for every layer",
    source="Everett et al., arXiv 2407.05872, Table 1; rates as m-wojnar/maxP, utils.py, has them",
)
