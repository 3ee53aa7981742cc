from dataclasses import replace
from typing import Any

from paper_checks.shared.bench import Claim, Finding, Interval, Lab, once
from paper_checks.shared.changes import scaled_updates
from paper_checks.shared.engine import derive
from paper_checks.shared.record import DEEPNET, MARGIN, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, Net, update_exponents

CLAIM = Claim(
    name="deepnet-vector-parameters",
    source=f"{DEEPNET}, §4.2 (the model update ‖ΔF‖) and the goal of §4.3",
    statement="""With the constants ‖ΔF‖ = Θ(η) for the update of the whole model, whose LayerNorm
        gains and biases are trained too.""",
    conditions="""built DeepNorm encoders of 8 to 128 layers, width 32, with multipliers also 64,
        text and independent tokens; embeddings and head not stepped""",
    finding="""The constants balance the matrices and not the model. The gains and biases of the
        norms receive the output's gradient undiminished, so under SGD they alone change the output
        in proportion to N (exponent 1.00). The change by all parameters has the exponent 0.87 to
        0.91 from 8 to 128 layers, and approaches 1. Adam's rule has the same gap (0.76 on text,
        0.82 for independent tokens). The derived multipliers divide the norms' rate by N and the
        output biases' by N^{1/2}. They restore exponent 0 (−0.010 to −0.015 from 8 to 128 layers)
        if the step is taken in double precision. In single precision a step of η/N is lost in the
        rounding of a gain of 1, so nothing is tested.""",
    counterexample="""The bias of the norm of each sublayer receives ∂L/∂F itself: 2N steps of size
        η‖∂L/∂F‖ in one direction, whatever α and β are.""",
    corrected="""‖ΔF‖ = Θ(η) for the matrices; all parameters together give Θ(ηN) under SGD unless
        the norms' learning rate is divided by N (and the output biases' by N^{1/2}).""",
    seconds=(8.0, 41),
)

WHAT = "exponent of ‖ΔF‖/η"
KINDS = {"norms": ("norm-gain", "norm-bias"), "output biases": ("output-bias",)}


@CLAIM.stated("SGD on the matrices: exponent 0 in N", SUPPORTED)
def matrices(lab: Lab) -> Finding:
    rivals = (("all parameters", 1.0),)
    return lab.exponent(slopes(lab, DEEPNORM, seeds=24), 0.0, rivals, what=WHAT)


@CLAIM.stated("SGD on all parameters: exponent 0 in N", REFUTED)
def all_parameters(lab: Lab) -> Finding:
    return lab.exponent(everything(lab), 0.0, what=WHAT)


@CLAIM.correction("SGD on the norms' gains and biases alone: ‖ΔF‖ grows as N", SUPPORTED)
def norms(lab: Lab) -> Finding:
    rivals = (("balanced", 0.0), ("half", 0.5))
    return lab.exponent(alone(lab)["norms"], 1.0, rivals, what=WHAT)


@CLAIM.ours("Adam at Adam's own rule, all parameters: the update grows too", SUPPORTED)
def adam(lab: Lab) -> Finding:
    (entry,) = derive(optimizer="adam").rule.entries
    own = Net(entry.alpha, entry.beta, "adam")
    return lab.at_least(slopes(lab, own, step="all", seeds=16), MARGIN, WHAT)


@CLAIM.correction(
    "SGD on all parameters, the norms' learning rate divided by N and that of biases as derived: "
    "exponent 0",
    SUPPORTED,
)
def fixed(lab: Lab) -> Finding:
    found = {}
    for data in conditions(lab):
        # float64: a step of η/N is lost in the rounding of a gain of 1 in single precision
        base = lab.small(data=data, step="all", dtype="float64")
        for width, seeds in lab.pick(((32, 32),), ((32, 32), (64, 8))):
            table = scaled_updates(DEEPNORM, lab.shallow(), replace(base, width=width, seeds=seeds))
            found[f"{data}, width {width}"] = lab.power(lab.shallow(), table)
    one_rate = min(slope.estimate for slope in everything(lab).values())
    what = f"{WHAT} with the derived multipliers"
    return lab.exponent(found, 0.0, (("one rate", one_rate),), what=what)


@CLAIM.ours("the derivation predicts every share: norms N, output biases N^{1/2}", SUPPORTED)
def predicted(lab: Lab) -> Finding:
    shares = derive(optimizer="sgd", method="lemma").parameters
    found, wanted = {}, {}
    for kind, roles in KINDS.items():
        degree = max(float(share.exponent) for share in shares if share.place.kind.value in roles)
        for data, slope in alone(lab)[kind].items():
            found[f"{kind}, {data}"], wanted[f"{kind}, {data}"] = slope, degree
    return lab.exponent(found, wanted, what=WHAT)


def conditions(lab: Lab) -> tuple[str, ...]:
    """The data."""
    return lab.pick(("text",), ("text", "gaussian:0"))


def slopes(lab: Lab, net: Net, roles: tuple[str, ...] = (), **given: Any) -> dict[str, Interval]:
    """The exponent of ‖ΔF‖/η in N by data, all stepped or some roles alone."""
    chosen = (lambda d: d.role.value in roles) if roles else None
    settings = {data: lab.small(data=data, **given) for data in conditions(lab)}
    return update_exponents(net, lab.shallow(), settings, lab.power, chosen)


@once
def everything(lab: Lab) -> dict[str, Interval]:
    """SGD on all parameters at one rate."""
    return slopes(lab, DEEPNORM, step="all", seeds=16)


@once
def alone(lab: Lab) -> dict[str, dict[str, Interval]]:
    """SGD on one kind of vectors at a time."""
    every = KINDS.items()
    return {kind: slopes(lab, DEEPNORM, roles, step="all", seeds=16) for kind, roles in every}
