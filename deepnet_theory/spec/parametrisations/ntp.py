from deepnet_theory.spec.parametrisation import ANY, Column, Parametrisation

NTP = Parametrisation(
    name="ntp",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    columns=(Column(ANY, {"embedding": "1", "hidden": "1", "head": "1"}),),
    summary="neural tangent: entries of size 1, the fan-in's root in the forward pass, one rate",
    source="Jacot, Gabriel and Hongler, arXiv 1806.07572",
)
