from deepnet_theory.definitions.scheme import Scheme

PERI_LN = Scheme(
    name="peri-ln",
    equation="x + norm(branch(norm(x)))/alpha",
    final_norm=True,
    optimizer="adam",
    summary="a norm before and one after the branch, in an identity stream",
    source="Kim et al., arXiv 2502.02732",
)
