from deepnet_theory.definitions.sublayer import Sublayer

ATTENTION_LATENT = Sublayer(
    branch=("softmax(norm(x*latent)*query*T(norm(x*latent)*key))*norm(x*latent)*value*output"),
    summary="self-attention of latent vectors, with a norm on them",
    source="DeepSeek-V2, arXiv 2405.04434",
)
