from deepnet_theory.spec.parametrisation import EVERY, Column, Parametrisation

COMPLETEP = Parametrisation(
    name="completep",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            dict.fromkeys(EVERY, "1") | {"hidden": "1/d"},
            epsilon=dict.fromkeys(EVERY, "1")
            | dict.fromkeys(("hidden", "gain", "bias"), "1/(d*N)"),
            decay={"hidden": "d"},
            decays="decoupled",
        ),
    ),
    summary="maximal update in width and depth, epsilon scaled in the residual blocks",
    source="Dey et al., arXiv 2505.01618, Table 1, at alpha = 1",
    mind="epsilon is stated for the residual blocks: it stays as it is elsewhere",
)
