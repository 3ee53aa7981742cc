from deepnet_theory.definitions.sublayer import Sublayer

FFN_SWIGLU_GATED = Sublayer(
    branch="hadamard(softmax(x*router), hadamard(phi(x*gate), x*up))*down",
    summary="gated feed-forward, opened by a bounded gate of the token, such as a shared expert's",
    source="Qwen 2 MoE, arXiv 2407.10671",
)
