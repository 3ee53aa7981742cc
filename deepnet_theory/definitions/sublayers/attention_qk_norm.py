from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer

ATTENTION_QK_NORM = Sublayer(
    name="attention-qk-norm",
    branch="softmax(norm(x*query)*T(norm(x*key)))*x*value*output",
    matrices=(
        Matrix("query", Role.UNSCALED),
        Matrix("key", Role.UNSCALED),
        Matrix("value", Role.SCALED),
        Matrix("output", Role.SCALED),
    ),
    summary="self-attention with a norm on queries and keys",
    source="Henry et al., arXiv 2010.04245; Dehghani et al., arXiv 2302.05442",
)
