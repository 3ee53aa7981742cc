from deepnet_theory.definitions.scheme import Scheme

PERI_LN = Scheme(
    equation="x + norm(branch(norm(x)))/alpha",
    optimizer="adam",
    summary="a norm before and one after the branch, in an identity stream",
    source="Kim et al., arXiv 2502.02732",
)
