from deepnet_theory.definitions.scheme import Scheme, SchemePart

LOOPED = Scheme(
    name="looped",
    equation="x + branch(norm(x))/alpha",
    final_norm=True,
    optimizer="adam",
    parts=(SchemePart("encoder", alpha="N/4*sqrt(4)"),),
    uses="N/4",
    summary="pre-LN, L layers looped N/L times, the branch divided by N/L*sqrt(L); here L = 4",
    source="Wang et al., arXiv 2606.18524",
    mind="the source counts loops as N, and lets the learning rate follow L alone",
)
