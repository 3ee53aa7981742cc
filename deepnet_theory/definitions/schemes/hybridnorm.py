from deepnet_theory.definitions.scheme import Scheme, SchemePart
from deepnet_theory.definitions.sublayer import sublayer

HYBRIDNORM = Scheme(
    name="hybridnorm",
    equation="x + branch(x)",
    final_norm=True,
    optimizer="adamw",
    parts=(SchemePart("encoder", gains={"output": "(2*N)**(-1/2)", "down": "(2*N)**(-1/2)"}),),
    summary="a norm on queries, keys and values and one on the stream before the feed-forward",
    source="Zhuo et al., arXiv 2503.04598, HybridNorm*; BryceZhuo/HybridNorm, olmo/model.py",
    norm="rms",
    first="x + branch(norm(x))",
    first_layers="1",
    layer=(sublayer("attention-qkv-norm:post-ln"), sublayer("ffn-swiglu")),
    mind="without the star the first layer is as all others",
)
