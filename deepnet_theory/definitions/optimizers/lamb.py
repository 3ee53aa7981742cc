from deepnet_theory.definitions.optimizer import Optimizer, Reference

LAMB = Optimizer(
    update="-eta*norm(theta)*sign(g)/sqrt(numel(theta))",
    summary="LAMB: Adam's direction, scaled to the parameter's norm",
    mind=(
        "libraries clamp the norm or treat a zero "
        "parameter as ratio 1; Su drops the factor 1/sqrt(numel)"
    ),
    source="Su, §Multiple optimizers; You et al., arXiv 1904.00962",
    reference=Reference(
        "pytorch_optimizer:Lamb",
        options=(("weight_decay", 0.0), ("adam_debias", True), ("max_grad_norm", 0.0)),
        requires="verify",
    ),
    practice=(
        "-eta*(norm(theta)*g/(sqrt(1 - 0.999)*abs(g) + epsilon)"
        "/norm(g/(sqrt(1 - 0.999)*abs(g) + epsilon)) + decay*theta)"
    ),
    epsilon=1e-06,
    at_zero="-eta*sign(g)",
    kept="-eta*norm(theta)*g/sqrt(v)/norm(g/sqrt(v))",
)
