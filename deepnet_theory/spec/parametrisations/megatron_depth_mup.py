from deepnet_theory.spec.parametrisation import EVERY, Column, Parametrisation

MEGATRON_DEPTH_MUP = Parametrisation(
    name="megatron-depth-mup",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            epsilon=dict.fromkeys(EVERY, "1/(d*N)") | {"embedding": "1/d", "head": "1/d"},
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="maximal update in width and depth, epsilon by class",
    scores="1/k",
    source="NVIDIA/Megatron-LM, pull request 4999, scaling-recipes.md, parameterization/roles.py",
    mind="not merged; output projections are drawn without the library's 1/sqrt(2N)",
)
