"""200 layers with 3.2 B parameters beat 48 layers with 12 B by 5 BLEU."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

RESULT = "the translation result itself"


def check(context: Context) -> tuple[Finding, ...]:
    """Nothing is measured: the claim is recorded as stated."""
    return (Finding(RESULT, Verdict.ASSUMED, "as reported by the paper; nothing here bears on it"),)


CLAIM = Claim(
    name="deepnet-200-48",
    source="DeepNet, arXiv 2203.00555, abstract and §6",
    statement=(
        "A 200-layer DeepNet with 3.2 B parameters outperforms the 48-layer model with 12 B "
        "parameters by 5 BLEU on 7,482 translation directions."
    ),
    conditions="multilingual translation at the paper's scale",
    recorded=(Ruling(RESULT, Verdict.ASSUMED),),
    finding=(
        "Recorded as reported. Models of billions of parameters and 7,482 translation "
        "directions are outside what can be run here, and no smaller experiment would bear "
        "on five BLEU points."
    ),
    check=check,
    untestable=(
        "billions of parameters, translation data of 7,482 directions and their training are "
        "outside what can be run here"
    ),
    seconds=0.1,
)
