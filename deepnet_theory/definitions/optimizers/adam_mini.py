from deepnet_theory.definitions.optimizer import Optimizer, Running

ADAM_MINI = Optimizer(
    update="-eta*g/blocks(rms(g), 64)",
    summary="Adam with one second moment for each head of 64 rows",
    mind="the library takes one for each row of value, output and feed-forward: blocks(rms(g), 1)",
    source="Zhang et al., arXiv 2406.16793, queries and keys",
    running=Running("-eta*m/(blocks(rms(sqrt(v)), 64) + epsilon)", first=0.9, second=0.999),
    practice="-eta*(g/(blocks(rms(g), 64) + epsilon) + decay*theta)",
    epsilon=1e-08,
)
