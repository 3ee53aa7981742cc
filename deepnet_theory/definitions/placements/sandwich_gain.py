from deepnet_theory.definitions.placement import Placement

SANDWICH_GAIN = Placement(
    equation="x + learnt(1/alpha)*norm(branch(norm(x)))",
    summary="sandwich-LN with 1/alpha as the start of the outer norm's gain (Gemma 2 and 3)",
    source="Yin et al., arXiv 2504.07866, depth-scaled sandwich norm; Gemma 2, arXiv 2408.00118",
)
