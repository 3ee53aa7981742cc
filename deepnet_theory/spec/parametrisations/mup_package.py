from deepnet_theory.spec.parametrisation import Column, Parametrisation

MUP_PACKAGE = Parametrisation(
    name="mup-package",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    columns=(
        Column(
            "adamw",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="decoupled",
        ),
        Column(
            "adam",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="coupled",
        ),
        Column(
            "sgd",
            {"embedding": "d", "hidden": "1", "head": "d", "gain": "d", "bias": "d"},
            decay={"embedding": "1/d", "hidden": "1", "head": "1/d"},
            decays="coupled",
        ),
    ),
    summary="maximal update as the package mup sets it, epsilon as it is",
    scores="1/k",
    source="microsoft/mup, mup/optim.py, mup/layer.py; decoupled_wd=False",
    mind="SGD's matrices take fan_out/fan_in, which does not grow with the width",
)
