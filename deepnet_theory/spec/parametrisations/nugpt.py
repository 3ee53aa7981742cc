from deepnet_theory.spec.parametrisation import Column, Parametrisation

NUGPT = Parametrisation(
    name="nugpt",
    init={"embedding": "d**(-1/2)", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    multiplier={"embedding": "d**(1/2)"},
    branch="1/N",
    columns=(
        Column(
            "adam",
            {
                "embedding": "d**(-1/2)",
                "hidden": "d**(-3/4)",
                "head": "d**(-3/4)",
                "gain": "1",
            },
        ),
    ),
    summary="a normalised Transformer, at an alignment midway between full and none",
    source="Shigida, Hanin & Gromov, arXiv 2604.27077, Table 1",
    mind=(
        "norms of 1 there are entries of d**(-1/2), and the head's gain grows as d**(1/2); "
        "matrices are put back to their norms after every step; the rate falls with the tokens "
        "to the 1/3"
    ),
)
