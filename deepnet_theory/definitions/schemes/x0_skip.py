from deepnet_theory.definitions.scheme import Scheme

X0_SKIP = Scheme(
    name="x0-skip",
    equation="x + y/20 + branch(norm(x)); y",
    output="x",
    final_norm=True,
    optimizer="adamw",
    summary="pre-LN, and a tenth of the normed embedding once more in every layer",
    source="karpathy/nanochat, nanochat/gpt.py, x0_lambdas",
    norm="rms",
    mind="half of the skip stands at each sublayer; its scalars are learnt, its outputs start at 0",
)
