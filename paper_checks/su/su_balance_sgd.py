from dataclasses import replace
from typing import Any

from paper_checks.shared.bench import Claim, Finding, Lab
from paper_checks.shared.changes import everything, scaled_updates
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, model_updates, per_depth

CLAIM = Claim(
    name="su-balance-sgd",
    source=f"{SU}, §First conclusions",
    statement="""λ/α = 1/√(2N) makes ΔL of one SGD step independent of depth; the paper's λ/α =
        1/√(4N) is equivalent in order.""",
    conditions="post-LN encoder, 12 to 512 layers; text, Gaussian tokens, widths 32 to 128",
    finding="""λ/α = (2N)^{−1/2} makes SGD's increment independent of depth, and 1/√(4N) halves it,
        as it should. This applies to the branch matrices alone. α and λ do not reach the gradients
        of LayerNorm gains and biases, so the update of all parameters still grows: 2.4 times from
        16 to 48 layers and 2.7 times from 48 to 144, where 3 is proportional. With the derived
        learning-rate multipliers for those vectors it is constant.""",
    counterexample="""SGD's rule, all parameters stepped, width 32: ‖ΔF‖/η is 10.4 at 16 layers and
        69 at 144, and 3.1 at both with the multipliers.""",
    corrected="""λ/α = 1/√(2N) balances the matrices; LayerNorm gains and biases need the
        learning-rate multiplier 1/(2N), output biases α-dependent ones, for the update of all
        parameters to be independent of depth.""",
    seconds=(11, 62),
)

RULE = Net("(2*N)**(1/4)", "(2*N)**(-1/4)")
SMALL: dict[str, Any] = {"seeds": 16, "width": 32, "tokens": 16}
RIVALS = (("linear growth", 1.0), ("Adam's rule", -1.0))


@CLAIM.stated("the increment of the loss, λ = 1/α, matrices stepped", SUPPORTED)
def loss(lab: Lab) -> Finding:
    found = {}
    for label, s in lab.variations(**SMALL).items():
        wide = label == "width 128"  # in lots of two seeds, and not as deep, for memory
        at, given = ((32, 96, 288), replace(s, seeds=8)) if wide else (lab.deep(), s)
        values = per_depth(RULE, at, given, Pass.squared, at_once=2 if wide else 8)
        found[label] = lab.settled(at, values)
    return lab.exponent(found, 0.0, RIVALS)


@CLAIM.stated(
    "the change of the output, λ = (2N)^{−1/2} and (2N)^{−1/4}, matrices stepped", SUPPORTED
)
def output(lab: Lab) -> Finding:
    curve = {"lambda = (2N)^-1/2": Net("1", "(2*N)**(-1/2)"), "lambda = (2N)^-1/4": RULE}
    at, s = lab.deep(), lab.settings(**SMALL)
    found = {label: lab.settled(at, model_updates(net, at, s)) for label, net in curve.items()}
    return lab.exponent(found, 0.0, RIVALS)


@CLAIM.stated("1/√(4N): same exponent, half the increment", SUPPORTED)
def paper(lab: Lab) -> Finding:
    at, published = lab.depths(), Net("(2*N)**(1/4)", "(8*N)**(-1/4)")
    own, theirs = (
        per_depth(net, at, lab.settings(**SMALL), Pass.squared) for net in (RULE, published)
    )
    halves = {f"{n} layers": lab.mean(one) for n, one in zip(at, (theirs / own).T, strict=True)}
    # 1/2 by the rule, within 5 %
    what = "increment over that of 1/√(2N)"
    return lab.within(halves, 0.475, 0.525, what, exponent=lab.settled(at, theirs).to_dict())


@CLAIM.ours("all parameters stepped", REFUTED)
def all_parameters(lab: Lab) -> Finding:
    found = lab.settled(lab.depths(), model_updates(RULE, lab.depths(), everything(lab, **SMALL)))
    return lab.exponent(found, 0.0, RIVALS)


@CLAIM.correction("all parameters with the derived learning-rate multipliers", SUPPORTED)
def all_with_multipliers(lab: Lab) -> Finding:
    found = lab.settled(lab.depths(), scaled_updates(RULE, lab.depths(), everything(lab, **SMALL)))
    return lab.exponent(found, 0.0, RIVALS)
