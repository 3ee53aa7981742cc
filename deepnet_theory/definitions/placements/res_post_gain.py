from deepnet_theory.definitions.placement import Placement

RES_POST_GAIN = Placement(
    equation="x + learnt(1/alpha)*norm(branch(x))",
    summary="res-post-LN with 1/alpha as the start of the norm's gain (OLMo 2)",
    source="OLMo et al., arXiv 2501.00656; Touvron et al., arXiv 2103.17239, the multiplier",
)
