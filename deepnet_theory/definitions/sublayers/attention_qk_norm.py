from deepnet_theory.definitions.sublayer import Sublayer

ATTENTION_QK_NORM = Sublayer(
    branch="softmax(norm(x*query)*T(norm(x*key)))*x*value*output",
    summary="self-attention with a norm on queries and keys",
    source="Henry et al., arXiv 2010.04245; Dehghani et al., arXiv 2302.05442",
)
