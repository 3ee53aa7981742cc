from deepnet_theory.definitions.optimizer import Optimizer, Reference

LARS = Optimizer(
    update="-eta*0.001*norm(theta)*g/norm(g)",
    summary="LARS with trust coefficient 0.001",
    mind="a zero parameter takes the plain step in libraries",
    source="You et al., arXiv 1708.03888",
    reference=Reference(
        "pytorch_optimizer:LARS",
        options=(("weight_decay", 0.0), ("momentum", 0.0), ("trust_coefficient", 0.001)),
        requires="verify",
    ),
    practice="-eta*0.001*norm(theta)*(g + decay*theta)/(norm(g) + decay*norm(theta))",
    at_zero="-eta*g",
)
