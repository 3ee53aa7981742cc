from deepnet_theory.spec.parametrisation import ANY, Column, Parametrisation

MEGATRON_MUP = Parametrisation(
    name="megatron-mup",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    columns=(
        Column(
            "adam",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            epsilon={"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
        ),
        Column("sgd", {"embedding": "d", "hidden": "1", "head": "d", "gain": "d", "bias": "d"}),
        Column(ANY, {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"}),
    ),
    summary="maximal update; every optimizer but SGD takes Adam's rates",
    scores="1/k",
    source="NVIDIA/Megatron-LM, core/optimizer/__init__.py, get_mup_config_overrides",
    mind="matrices that Muon steps are left out of it",
)
