from deepnet_theory.definitions.placement import Placement

STREAM_SCALAR = Placement(
    name="stream-scalar",
    equation="learnt(1)*x + branch(norm(x))",
    final_norm=True,
    summary="Pre-LN with a learnt scalar on the stream",
    source="karpathy/nanochat, nanochat/gpt.py, resid_lambdas",
)
