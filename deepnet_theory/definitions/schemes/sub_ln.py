from deepnet_theory.definitions.scheme import ALL_SCALED, Scheme, SchemePart
from deepnet_theory.definitions.sublayers.attention_sub_ln import ATTENTION_SUB_LN
from deepnet_theory.definitions.sublayers.ffn_sub_ln import FFN_SUB_LN

SUB_LN = Scheme(
    name="sub-ln",
    equation="x + branch(norm(x))",
    final_norm=True,
    optimizer="adam",
    parts=(
        SchemePart(
            "encoder",
            gains=dict.fromkeys(ALL_SCALED, "sqrt(log(2*N))"),
        ),
    ),
    summary="pre-LN with one more norm inside the branch and gains that grow with log N",
    source="Wang et al., Magneto, arXiv 2210.06423, encoder-only",
    layer=(ATTENTION_SUB_LN, FFN_SUB_LN),
)
