from deepnet_theory.definitions.scheme import Scheme, SchemePart
from deepnet_theory.definitions.sublayer import Sublayer

SPECTRAL_ONE_MATRIX = Scheme(
    equation="x + branch(norm(x))/alpha",
    optimizer="muon-moonlight",
    parts=(SchemePart("encoder", alpha="sqrt(N)"),),
    summary="pre-LN, the branch of one matrix divided by sqrt(N), a normalised update too",
    source="Zheng et al., arXiv 2603.00541, branches of one transformation",
    rates={"scaled": "N**(-1/2)"},
    layer=(Sublayer("linear", "phi(x)*fc"),),
)
