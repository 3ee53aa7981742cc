from deepnet_theory.definitions.sublayer import Sublayer

ATTENTION_QKV_NORM = Sublayer(
    branch="softmax(norm(x*query)*T(norm(x*key)))*norm(x*value)*output",
    summary="self-attention with a norm on queries, keys and values",
    source="Zhuo et al., HybridNorm, arXiv 2503.04598",
)
