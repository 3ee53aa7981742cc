from deepnet_theory.definitions.scheme import Scheme

BRANCHNORM = Scheme(
    equation="norm(alpha*x + branch(x))",
    final_norm=False,
    optimizer="adam",
    summary="post-LN whose branch grows from 0 to 1 in the first steps",
    source="Liu et al., arXiv 2305.02790",
    schedule="min(1, t/4000)",
    mind="the released setting's length of the schedule is a constant",
)
