from deepnet_theory.spec.parametrisation import EVERY, Column, Parametrisation

COMPLETEP_CODE = Parametrisation(
    name="completep-code",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            dict.fromkeys(EVERY, "1") | {"hidden": "1/d"},
            epsilon=dict.fromkeys(EVERY, "1/(d*N)"),
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="CompleteP's code: one epsilon for all parameters, embedding and head tied",
    scores="1/k",
    tied=True,
    source="EleutherAI/nanoGPT-mup, branch completep, model.py, at depth_alpha_exp = 1",
)
