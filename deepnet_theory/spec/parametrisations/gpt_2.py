from deepnet_theory.spec.parametrisation import Column, Parametrisation

GPT_2 = Parametrisation(
    name="gpt-2",
    init={
        "embedding": "0.02",
        "hidden": "0.02",
        "residual-output": "0.02/sqrt(2*N)",
        "head": "0.02",
    },
    columns=(
        Column("adam", {"embedding": "1", "hidden": "1", "head": "1", "gain": "1", "bias": "1"}),
    ),
    summary="one standard deviation at every width, residual projections smaller by sqrt(2N)",
    scores="1/sqrt(k)",
    tied=True,
    source="Radford et al. 2019, §2.3; released code: std 0.02",
)
