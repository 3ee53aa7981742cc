"""CompleteP as its code has it: one epsilon for all parameters."""

from deepnet_theory.spec.parametrisation import Column, Parametrisation

COMPLETEP_CODE = Parametrisation(
    name="completep-code",
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
                "embedding": "1/(d*N)",
                "hidden": "1/(d*N)",
                "head": "1/(d*N)",
                "gain": "1/(d*N)",
                "bias": "1/(d*N)",
                "final-gain": "1/(d*N)",
            },
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="CompleteP's code: one epsilon for all parameters, embedding and head tied",
    scores="1/k",
    tied=True,
    source="EleutherAI/nanoGPT-mup, branch completep, model.py, at depth_alpha_exp = 1",
)
