from deepnet_theory.definitions.placement import Placement

LAYER_SCALE = Placement(
    equation="x + learnt(1/alpha)*branch(norm(x))",
    summary="Pre-LN with a learnt multiplier for every channel of the branch (LayerScale)",
    source="Touvron et al., arXiv 2103.17239",
)
