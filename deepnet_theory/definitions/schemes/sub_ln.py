from deepnet_theory.definitions.scheme import ALL_SCALED, RuleEntry, Scheme
from deepnet_theory.definitions.sublayer import sublayer

SUB_LN = Scheme(
    equation="x + branch(norm(x))",
    optimizer="adam",
    parts=(RuleEntry("encoder", gains=dict.fromkeys(ALL_SCALED, "sqrt(log(2*N))")),),
    summary="pre-LN with one more norm inside the branch and gains that grow with log N",
    source="Wang et al., Magneto, arXiv 2210.06423, encoder-only",
    layer=tuple(map(sublayer, ("attention-sub-ln", "ffn-sub-ln"))),
)
