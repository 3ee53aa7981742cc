from deepnet_theory.spec.parametrisation import Column, Parametrisation

NANOGPT_MUP = Parametrisation(
    name="nanogpt-mup",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    columns=(
        Column(
            "adamw",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            epsilon={"embedding": "1", "hidden": "1", "head": "1", "gain": "1", "bias": "1"},
            decay={"embedding": "1", "hidden": "1", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="maximal update, embedding and head tied, epsilon and weight decay as they are",
    scores="1/k",
    tied=True,
    source="EleutherAI/nanoGPT-mup, branch master, model.py",
)
