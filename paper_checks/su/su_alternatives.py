from dataclasses import replace

from deepnet_theory.definitions.selection import Selection
from paper_checks.shared.bench import Claim, Finding, Fit, Lab, judge, once, sp, symbolic
from paper_checks.shared.engine import equal, formula
from paper_checks.shared.record import PROVED, SU, SUPPORTED
from paper_checks.shared.rules import CONDITIONS, balanced
from paper_checks.shared.stacks import Net, Pass, exponents, model_updates

CLAIM = Claim(
    name="su-alternatives",
    source=f"{SU}, §First conclusions, the two alternative solutions",
    statement="""With SGD, α = 1, λ = (2N)^{−1/2} keeps the relative update as it was, α =
        (2N)^{1/2}, λ = 1 shrinks it, and the symmetric choice lies between.""",
    conditions="post-LN encoder, first SGD step, 12 to 144 layers; text and Gaussian tokens",
    finding="""Su's comparison is right: on the balanced curve the relative update ‖Δθ‖/‖θ‖ of the
        scaled matrices scales as N^0 for α = 1, N^{−1/4} for the symmetric choice and N^{−1/2} for
        λ = 1, while all three change the output alike (within a factor 1.6). What he says that may
        follow from it for learning is tested separately (su-escape, su-implicit-warmup).""",
    seconds=(11, 82),
)

NETS = {
    "unit-residual": Net("1", "(2*N)**(-1/2)"),
    "unit-init": Net("(2*N)**(1/2)", "1"),
    "symmetric": Net("(2*N)**(1/4)", "(2*N)**(-1/4)"),
}


@CLAIM.stated("derived powers of N: 0, −1/2, −1/4", PROVED)
def derived(lab: Lab) -> Finding:
    N, powers, same = formula("N"), {}, True
    for closure, net in NETS.items():
        alpha, lam = balanced(*CONDITIONS["sgd"][:2], closure)
        own = (lam / alpha) / lam  # a gradient O(λ/α) beside a weight O(λ)
        powers[closure] = str(sp.simplify(N * sp.diff(sp.log(own), N)))
        implied = symbolic.Answer(Selection(optimizer="sgd", closure=closure)).consequences
        engine = next(c.value for c in implied if c.name == "relative-update")
        same &= sp.simplify(N * sp.diff(sp.log(formula(str(engine)) / own), N)) == 0
        same &= equal(formula(net.alpha), alpha) and equal(formula(net.beta), lam)
    same &= powers == {"unit-residual": "0", "unit-init": "-1/2", "symmetric": "-1/4"}
    what = "the balance solved under each choice, gradient over weight; the engine's powers agree"
    return lab.proved(same, what, **powers)


@CLAIM.stated(
    "all three shrink the gradients, and with them SGD's update, to (2N)^{−1/2}", SUPPORTED
)
def gradient(lab: Lab) -> Finding:
    every = ((name, *pair) for name, of in measured(lab).items() for pair in of["gradient"].items())
    found = {f"{name}, {label}": fit for name, label, fit in every}
    return lab.exponent(found, -0.5, (("constant", 0.0), ("Adam's", -1.0)))


@judge
def relative(lab: Lab, choice: str, exponent: float, *rivals: tuple[str, float]) -> Finding:
    return lab.exponent(measured(lab)[choice]["relative"], exponent, rivals)


CLAIM.stated("α = 1: the relative update does not shrink with depth", SUPPORTED)(
    relative("unit-residual", 0.0, ("symmetric", -0.25))
)
CLAIM.stated("λ = 1: it shrinks as (2N)^{−1/2}", SUPPORTED)(
    relative("unit-init", -0.5, ("symmetric", -0.25))
)
CLAIM.stated("symmetric: in between, as (2N)^{−1/4}", SUPPORTED)(
    relative("symmetric", -0.25, ("alpha = 1", 0.0), ("lambda = 1", -0.5))
)


@CLAIM.ours("all three change the output by the same order", SUPPORTED)
def output(lab: Lab) -> Finding:
    # the seeds' tokens and heads are those of every choice: paired
    far = (36, 108, 324)
    s = lab.settings(width=32, tokens=16, seeds=32, data="gaussian:0")
    moved = {name: model_updates(net, far, s) for name, net in NETS.items()}
    base = moved.pop("unit-residual")
    ratios = {f"{name} over alpha = 1": lab.settled(far, own / base) for name, own in moved.items()}
    return lab.exponent(ratios, 0.0, (("as the relative update", -0.25),))


@once
def measured(lab: Lab) -> dict[str, dict[str, dict[str, Fit]]]:
    """The exponents of the scaled matrices' gradient and of gradient over weight, by choice."""
    quantities = {"gradient": Pass.size, "relative": lambda p: p.size() / p.weight()}
    conditions = lab.varied(("width 128", "independent tokens", "correlated tokens"), seeds=48)
    if lab.full:
        conditions["width 128"] = replace(conditions["width 128"], seeds=16)
    return {
        name: exponents(net, lab.depths(), conditions, quantities, at_once=lab.pick(24, 8))
        for name, net in NETS.items()
    }
