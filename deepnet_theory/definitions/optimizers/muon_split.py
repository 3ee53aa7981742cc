from deepnet_theory.definitions.optimizer import Optimizer, Running

MUON_SPLIT = Optimizer(
    update="-eta*blocks(sqrt(max(1, rows(theta)/columns(theta)))*polar(g), 64)",
    summary="Muon with a polar factor of its own for each head of 64 rows",
    mind="heads are blocks of rows, of query, key and value; for other heads write your own update",
    source="GLM-5, arXiv 2602.15763, Muon Split",
    running=Running(
        "-eta*blocks(sqrt(max(1, rows(theta)/columns(theta)))*polar(m), 64)", first=0.95
    ),
)
