from deepnet_theory.definitions.scheme import Scheme, SchemePart

KEEL = Scheme(
    name="keel",
    equation="norm(alpha*x + branch(norm(x)))",
    final_norm=False,
    optimizer="adamw",
    parts=(SchemePart("encoder", alpha="2*N"),),
    summary="post-LN, the stream multiplied by the number of sublayers, a norm before the branch",
    source="Chen and Wei, arXiv 2601.19895",
    first="x + branch(norm(x))",
    first_layers="1",
)
