from deepnet_theory.definitions.scheme import RuleEntry, Scheme

ZERO_OUTPUTS = Scheme(
    equation="x + branch(norm(x))",
    optimizer="muon",
    parts=(RuleEntry("encoder", gains={"output": "0", "fc2": "0"}),),
    summary="pre-LN, the last matrix of every branch 0 at first",
    source="karpathy/nanochat, nanochat/gpt.py, init_weights",
    norm="rms",
    mind=(
        "the initial sizes alone: nanochat's scalars on the stream, 1.15 to 1.05, and its skips "
        "from the embedding are a second stream"
    ),
)
