from deepnet_theory.definitions.placement import Placement

RES_POST_LN = Placement(
    equation="x + norm(branch(x))/alpha",
    summary="the norm inside the residual, after the branch (Swin V2)",
    source="Liu et al., arXiv 2111.09883; Su, reply of August 2023",
)
