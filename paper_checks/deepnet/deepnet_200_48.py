from paper_checks.shared.bench import Claim, Finding, Lab
from paper_checks.shared.record import ASSUMED, DEEPNET

CLAIM = Claim(
    name="deepnet-200-48",
    source=f"{DEEPNET}, abstract and §6",
    statement="""A 200-layer DeepNet with 3.2 B parameters outperforms the 48-layer model with 12 B
        parameters by 5 BLEU on 7,482 translation directions.""",
    conditions="multilingual translation at the paper's scale",
    finding="""Recorded as reported. Models of billions of parameters and 7,482 translation
        directions are outside what can be run here, and no smaller experiment would bear on five
        BLEU points.""",
    untestable="""billions of parameters, translation data of 7,482 directions and their training
        are outside what can be run here""",
)


@CLAIM.stated("the translation result itself", ASSUMED)
def result(lab: Lab) -> Finding:
    return lab.assumed("as reported by the paper; nothing here bears on it")
