from paper_checks.shared.bench import Claim, Finding, Interval, Lab, once
from paper_checks.shared.record import SUPPORTED, TPV
from paper_checks.shared.wide import (
    MUP,
    ROLES,
    STANDARD,
    SYMBOLS,
    Network,
    adam,
    exponents,
    size,
    trained,
    widths,
)

CLAIM = Claim(
    name="width-mup-adam",
    source=f"{TPV}, Table 8; README of the authors' package mup, 'Coord Check'",
    statement="""With Adam a hidden matrix takes the learning rate 1/fan_in, embeddings and the head
        the rate 1, and the head the multiplier 1/fan_in: activations and logits then keep their
        size at every width. In standard parametrization they explode after one step.""",
    conditions="""an explicit network of an embedding, two hidden maps and a head (16 symbols, 4 of
        them in a batch), widths 128 to 1,024 (2,048 in the full run)""",
    finding="""Right by role: one step moves each role's own output with an exponent within 0.04 of
        0, and the changes of activations and logits over three steps are flat as well. In standard
        parametrization at one rate the outputs of the hidden maps and of the head move as n, and
        the logits through all roles as n^{1.43}. The logits' own size is no such check in the first
        steps: it starts at n^{−1/2}, and what is flat from the start is its change.""",
    seconds=(5, 30),
)
FLAT = 0.0
GROWING = (("standard parametrization", 1.0), ("1/√n", 0.5))


@CLAIM.stated("Table 8: a step of each role changes its output alike at every width", SUPPORTED)
def by_role(lab: Lab) -> Finding:
    found = right(lab)
    return lab.exponent({role: found[role] for role in ROLES}, FLAT, GROWING)


@CLAIM.stated("Table 8: and a step of all roles the logits", SUPPORTED)
def together(lab: Lab) -> Finding:
    return lab.exponent(right(lab)["all"], FLAT, GROWING)


@CLAIM.stated(
    "one rate in standard parametrization: one step's move of the logits grows", SUPPORTED
)
def standard(lab: Lab) -> Finding:
    return lab.at_least(plain(lab)["all"], 1.0, "exponent of the logits' change")


@CLAIM.ours("there the hidden maps' and the head's own outputs change as n", SUPPORTED)
def standard_by_role(lab: Lab) -> Finding:
    found = plain(lab)
    own = {role: found[role] for role in ROLES[1:]}
    return lab.exponent(own, 1.0, (("1/√n alignment", 0.5), ("flat", FLAT)))


@CLAIM.stated("the logits start at n^{−1/2}, an exception in the coordinate check", SUPPORTED)
def start(lab: Lab) -> Finding:
    logits = []
    for n in widths(lab):
        net = Network(MUP, n, 16, lab.generator(n), tokens=SYMBOLS)
        logits.append(size(net.forward(net.parameters)["logits"].detach()))
    found = lab.power(widths(lab), lab.columns(logits))
    return lab.exponent(found, -0.5, (("flat", FLAT), ("1/n", -1.0)))


@CLAIM.stated("three steps of Adam change activations and logits alike at every width", SUPPORTED)
def three_steps(lab: Lab) -> Finding:
    found = trained(lab, MUP.rates(hidden=-1), 0.02, 3)
    after = {name: lab.numbers(i) for name, i in found["after"].items()}
    return lab.exponent(found["change"], FLAT, GROWING, size_after=after)


@once
def right(lab: Lab) -> dict[str, Interval]:
    return exponents(lab, MUP.rates(hidden=-1), adam)


@once
def plain(lab: Lab) -> dict[str, Interval]:
    return exponents(lab, STANDARD, adam)
