from deepnet_theory.spec.parametrisation import Column, Parametrisation

U_MUP = Parametrisation(
    name="u-mup",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "1/d"},
    branch="N**(-1/2)",
    columns=(
        Column(
            "adamw",
            {
                "embedding": "d**(-1/2)",
                "hidden": "(d*N)**(-1/2)",
                "head": "1",
                "gain": "N**(-1/2)",
                "bias": "N**(-1/2)",
            },
            decay={"embedding": "1", "hidden": "1", "head": "1"},
            decays="independent",
        ),
    ),
    summary="unit-scaled maximal update: entries of size 1, the embedding stepped less",
    source="Blake et al., arXiv 2407.17465; graphcore-research/unit-scaling, optim.py",
    mind="the code takes an embedding's width for its fan-in",
)
