from deepnet_theory.spec.scheme import ALL_SCALED, Scheme, SchemePart
from deepnet_theory.spec.sublayer import Matrix, Role, Sublayer

ATTENTION = Sublayer(
    name="attention-sub-ln",
    branch="norm(softmax((x*query)*T(x*key))*x*value)*output",
    matrices=(
        Matrix("query", Role.UNSCALED),
        Matrix("key", Role.UNSCALED),
        Matrix("value", Role.SCALED),
        Matrix("output", Role.SCALED),
    ),
)
FFN = Sublayer(
    name="ffn-sub-ln",
    branch="norm(phi(x*fc1))*fc2",
    matrices=(
        Matrix("fc1", Role.SCALED, "d", "hidden"),
        Matrix("fc2", Role.SCALED, "hidden", "d"),
    ),
)
SUB_LN = Scheme(
    name="sub-ln",
    equation="x + branch(norm(x))",
    final_norm=True,
    optimizer="adam",
    parts=(
        SchemePart(
            "encoder",
            gains=dict.fromkeys(ALL_SCALED, "sqrt(log(2*N))"),
        ),
    ),
    summary="pre-LN with one more norm inside the branch and gains that grow with log N",
    source="Wang et al., Magneto, arXiv 2210.06423, encoder-only",
    layer=(ATTENTION, FFN),
)
