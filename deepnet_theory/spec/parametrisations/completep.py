"""Maximal update and the branch divided by N: the table."""

from deepnet_theory.spec.parametrisation import Column, Parametrisation

COMPLETEP = Parametrisation(
    name="completep",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            {
                "embedding": "1",
                "hidden": "1/d",
                "head": "1",
                "gain": "1",
                "bias": "1",
                "final-gain": "1",
            },
            epsilon={
                "embedding": "1",
                "hidden": "1/(d*N)",
                "gain": "1/(d*N)",
                "bias": "1/(d*N)",
                "head": "1",
                "final-gain": "1",
            },
            decay={"hidden": "d"},
            decays="decoupled",
        ),
    ),
    summary="maximal update in width and depth, epsilon scaled in the residual blocks",
    source="Dey et al., arXiv 2505.01618, Table 1, at alpha = 1",
    mind="epsilon is stated for the residual blocks: it stays as it is elsewhere",
)
