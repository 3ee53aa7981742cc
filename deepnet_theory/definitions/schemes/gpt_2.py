from deepnet_theory.definitions.scheme import RuleEntry, Scheme

GPT_2 = Scheme(
    equation="x + branch(norm(x))",
    optimizer="adam",
    parts=(RuleEntry("encoder", gains={"output": "(2*N)**(-1/2)", "fc2": "(2*N)**(-1/2)"}),),
    summary="pre-LN whose residual projections are drawn smaller by sqrt(2N)",
    std="0.02",
    source="Radford et al. 2019, §2.3; released code: std 0.02/sqrt(2 n_layer)",
    mind="the common standard deviation 0.02 is a constant of the width",
)
