from paper_checks.shared.bench import Claim, Finding, Lab
from paper_checks.shared.record import SUPPORTED, TPV
from paper_checks.shared.wide import (
    EMBEDDING,
    HEAD,
    HIDDEN,
    MUP,
    MUP_WEIGHTS,
    ROLES,
    STANDARD,
    exponents,
    sgd,
)

CLAIM = Claim(
    name="width-mup-sgd",
    source=f"{TPV}, Tables 3 and 8; the authors' package mup, MuSGD",
    statement="""With SGD embeddings take the learning rate fan_out, hidden matrices 1, and the head
        1/fan_in where its 1/fan_in is in its initial size (Table 3), fan_in where it is a
        multiplier (Table 8).""",
    conditions="""an explicit network of an embedding, two hidden maps and a head (16 symbols, 4 of
        them in a batch), widths 128 to 1,024 (2,048 in the full run)""",
    finding="""Right in both forms: one step moves every role's output with an exponent within 0.03
        of 0. At one common rate the embedding's move falls as 1/n: SGD freezes it in a wide model.
        In standard parametrization the hidden output changes as √n and the head's as n, so that no
        one rate works for the three roles in either parametrization.""",
    seconds=(5, 30),
)
RIVALS = (("a width too much", 1.0), ("a width too little", -1.0))


@CLAIM.stated("Table 8: n, 1 and n: a step of each role changes its output alike", SUPPORTED)
def multiplier(lab: Lab) -> Finding:
    found = exponents(lab, MUP.rates(embedding=1, head=1), sgd)
    return lab.exponent({role: found[role] for role in ROLES}, 0.0, RIVALS)


@CLAIM.stated("Table 3: n, 1 and 1/n: the same", SUPPORTED)
def weights(lab: Lab) -> Finding:
    found = exponents(lab, MUP_WEIGHTS.rates(embedding=1, head=-1), sgd)
    return lab.exponent({role: found[role] for role in ROLES}, 0.0, RIVALS)


@CLAIM.ours("one rate freezes the embedding, as 1/n, and Table 8's head", SUPPORTED)
def one_rate(lab: Lab) -> Finding:
    found = exponents(lab, MUP, sgd)
    frozen = {role: found[role] for role in (EMBEDDING, HEAD)}
    return lab.exponent(frozen, -1.0, (("flat", 0.0), ("1/√n", -0.5)))


@CLAIM.ours("standard parametrization: −1/2, 1/2 and 1", SUPPORTED)
def standard(lab: Lab) -> Finding:
    found = exponents(lab, STANDARD, sgd)
    wanted = {EMBEDDING: -0.5, HIDDEN: 0.5, HEAD: 1.0}
    return lab.exponent({role: found[role] for role in ROLES}, wanted, (("flat", 0.0),))
