from deepnet_theory.definitions.sublayer import Matrix, Role, Sublayer

ATTENTION_QKV_NORM = Sublayer(
    name="attention-qkv-norm",
    branch="softmax(norm(x*query)*T(norm(x*key)))*norm(x*value)*output",
    matrices=(
        Matrix("query", Role.UNSCALED),
        Matrix("key", Role.UNSCALED),
        Matrix("value", Role.UNSCALED),
        Matrix("output", Role.SCALED),
    ),
    summary="self-attention with a norm on queries, keys and values",
    source="Zhuo et al., HybridNorm, arXiv 2503.04598",
)
