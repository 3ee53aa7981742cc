from deepnet_theory.spec.scheme import Scheme, SchemePart

PERI_LN = Scheme(
    name="peri-ln",
    equation="x + norm(branch(norm(x)))/alpha",
    final_norm=True,
    optimizer="adam",
    parts=(SchemePart("encoder"),),
    summary="a norm before and one after the branch, in an identity stream",
    source="Kim et al., arXiv 2502.02732",
)
