from dataclasses import dataclass

from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, np, once, sp
from paper_checks.shared.engine import derive, equal, formula
from paper_checks.shared.record import CAKE, PROVED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, Net, Pass, at_points

CLAIM = Claim(
    name="cake-step-size",
    source=f"{CAKE}, §4.3, last supplement",
    statement="""‖Δθ_i‖ = O(η‖θ_i‖/α): a small α lets θ leave its initial value fast, a large one
        converges slowly; setting 1/α = ‖θ_i‖, so that ‖Δθ_i‖ = O(η‖θ_i‖²), explains the published
        choice.""",
    conditions="""SGD on built encoders of 8 to 128 layers under four rules, text and Gaussian
        tokens of correlation 0 and ½; θ read as a scaled matrix or its scalar""",
    finding="""‖ΔW‖/η = O(β/α) is right for every rule tried, and 1/α = ‖θ‖ together with the
        balance does single out the published point. But it is a choice, not an explanation: on the
        whole balanced curve ‖ΔW‖/η falls as N^{−1/2}, whatever the closure. What a closure decides
        is the relative update, which scales as 1/α: constant for α = 1, N^{−1/4} for the published
        constants, N^{−1/2} for β = 1.""",
    corrected="""On the balanced curve ‖ΔW‖/η = O(β/α) = O(N^{−1/2}) for every closure; closures
        differ in the relative update alone, which is O(1/α).""",
)
BALANCED = {
    "parameter-norm": DEEPNORM,
    "unit residual": Net("1", "(4*N)**(-1/2)"),
    "unit init": Net("(4*N)**(1/2)", "1"),
}
RULES = {**BALANCED, "Adam's rule": Net("(2*N)**(1/2)", "(2*N)**(-1/2)")}


@CLAIM.stated("‖ΔW‖/η of the scaled matrices scales as β/α, under each of four rules", SUPPORTED)
def order(lab: Lab) -> Finding:
    at, every = lab.shallow(), steps(lab).items()
    ratios = {label: lab.power(at, s.update / (s.beta / s.alpha)) for label, s in every}
    return lab.exponent(ratios, 0.0, what="exponent in N of ‖ΔW‖/η over β/α")


@CLAIM.stated("1/α = √(v² + w²) picks one point of the balanced curve, the published one", PROVED)
def unique(lab: Lab) -> Finding:
    N, (a, b) = formula("N"), sp.symbols("alpha beta", positive=True)
    solved = sp.solve([2 * N * 2 * b**2 - a**2, 2 * a**2 * b**2 - 1], [a, b], dict=True)
    entry = derive(optimizer="sgd", method="lemma").rule.entries[0]
    published = {a: DEEPNORM.alpha, b: DEEPNORM.beta}
    one = len(solved) == 1 and all(equal(solved[0][k], formula(t)) for k, t in published.items())
    engine = equal(formula(entry.alpha), solved[0][a]) and equal(formula(entry.beta), solved[0][b])
    return lab.proved(one and engine, f"solved with α, β > 0, here and by the engine: {solved}")


@CLAIM.stated("there ‖ΔW‖/η scales as β²", SUPPORTED)
def squared(lab: Lab) -> Finding:
    found = {k: i for k, i in updates(lab).items() if k.startswith("parameter-norm")}
    rivals = (("β", -0.25), ("constant", 0.0))
    return lab.exponent(found, -0.5, rivals, what="exponent of ‖ΔW‖/η, that of β² = (8N)^{−1/2}")


@CLAIM.ours("no closure of the same balance lets ‖Δθ‖/η grow", SUPPORTED)
def never_grows(lab: Lab) -> Finding:
    return lab.at_most(updates(lab), 0.0, "exponent in N of ‖ΔW‖/η")


@CLAIM.ours(
    "along the balanced curve β = α/(2√N) ‖ΔW‖/η falls as N^{−1/2} for every closure", SUPPORTED
)
def every_closure(lab: Lab) -> Finding:
    rivals = (("β²'s for β = 1", 0.0), ("1/α's for α = 1", 0.0))
    return lab.exponent(updates(lab), -0.5, rivals, what="exponent in N of ‖ΔW‖/η")


@CLAIM.ours("there the relative update ‖ΔW‖/(η‖W‖) scales as 1/α", SUPPORTED)
def relative(lab: Lab) -> Finding:
    at, every = lab.shallow(), steps(lab).items()
    found = {n: lab.power(at, s.update / s.weight * s.alpha) for n, s in every if s.balanced}
    return lab.exponent(found, 0.0, what="exponent in N of ‖ΔW‖/(η‖W‖) over 1/α")


def updates(lab: Lab) -> dict[str, Interval]:
    """The exponent of ‖ΔW‖/η in N under each balanced rule."""
    at, every = lab.shallow(), steps(lab).items()
    return {label: lab.power(at, s.update) for label, s in every if s.balanced}


@dataclass(frozen=True)
class Steps:
    """Root mean squares over the scaled matrices under one rule, (seeds, depths) each."""

    balanced: bool
    alpha: Array  # (depths,)
    beta: Array
    update: Array  # ‖ΔW‖_F/η, the gradient's
    weight: Array  # ‖W‖_F


@once
def steps(lab: Lab) -> dict[str, Steps]:
    """By rule and data."""
    found, at = {}, lab.shallow()
    for data in lab.texts():
        for name, net in RULES.items():
            points = [(net, n, lab.small(data=data)) for n in at]
            sizes = at_points(points, {"update": Pass.size, "weight": Pass.weight})
            alpha, beta = np.array([net.rule.entry("encoder", "*").at(N=n) for n in at]).T
            found[f"{name}, {data}"] = Steps(name in BALANCED, alpha, beta, **sizes)
    return found
