from deepnet_theory.spec.parametrisation import Column, Parametrisation

SPECTRAL_CONDITION = Parametrisation(
    name="spectral-condition",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1/d"},
    columns=(Column("sgd", {"embedding": "d", "hidden": "1", "head": "1/d"}),),
    summary="weights and updates of a spectral norm of sqrt(fan_out/fan_in)",
    source="Yang, Simon and Bernstein, arXiv 2310.17813, Parametrization 1",
)
