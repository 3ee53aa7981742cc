from paper_checks.shared.bench import Claim, Finding, Lab, torch
from paper_checks.shared.changes import everything, scaled_updates
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, model_updates, own_updates, per_depth, torch_step

CLAIM = Claim(
    name="su-adam",
    source=f"{SU}, §Multiple optimizers, first equation",
    statement="Adam's ΔL ≈ −η‖∇L‖₁ is of degree 1 in the gradient, so Adam needs λ/α = 1/(2N).",
    conditions="""post-LN encoder, first Adam step, 12 to 144 layers; text, Gaussian tokens, widths
        32 to 128""",
    finding="""λ/α = 1/(2N) keeps Adam's update and its increment η‖∇L‖₁ constant in depth, with an
        exponent within 0.01 of 0, and λ/α = (2N)^{−c} gives 1 − c. DeepNet's own constants, derived
        for SGD, let Adam's update grow as N^{1/2}. This applies to the matrices. If LayerNorm's
        gains and biases have the same rate, the exponent is 0.73 from 16 to 144 layers and rising,
        so Adam's rule needs the derived multipliers for them. torch's own Adam, with its ε, makes
        the same step.""",
    counterexample="""SGD's rule under Adam, width 64: ‖ΔF‖/η is 2,500 at 16 layers and 7,400 at
        144. Adam's rule with all parameters stepped: 790 and 3,950.""",
    corrected="""λ/α = 1/(2N) for the matrices, and learning-rate multipliers 1/(2N) for vectors
        whose gradient does not carry λ/α.""",
    seconds=(8, 40),
)

RULE = Net("(2*N)**(1/2)", "(2*N)**(-1/2)", "adam")
CONSTANT = (("constant", 0.0),)
GROWING = (("SGD's rule", 0.5), ("linear growth", 1.0))


@CLAIM.stated("λ/α = 1/(2N) keeps Adam's update constant in depth", SUPPORTED)
def constant(lab: Lab) -> Finding:
    step = lambda one: torch_step(torch.optim.Adam, one.theta, one.g, lr=1e-6)  # noqa: E731
    at = lab.depths()
    every = {label: model_updates(RULE, at, s) for label, s in lab.variations().items()}
    own = own_updates(RULE, at, lab.settings(dtype="float64"), 1e-6, step)
    every["torch's Adam, ε = 10⁻⁸"] = own
    found = {label: lab.settled(at, values) for label, values in every.items()}
    return lab.exponent(found, 0.0, GROWING)


@CLAIM.stated("and its increment of the loss, η‖∇L‖₁", SUPPORTED)
def increment(lab: Lab) -> Finding:
    found = per_depth(RULE, lab.depths(), lab.settings(), Pass.absolute)
    return lab.exponent(lab.settled(lab.depths(), found), 0.0, GROWING)


@CLAIM.ours("under SGD's rule Adam's update grows as N^{1/2}", SUPPORTED)
def under_the_rule_of_sgd(lab: Lab) -> Finding:
    at, rule = lab.depths(), Net("(2*N)**(1/4)", "(2*N)**(-1/4)", "adam")
    return lab.exponent(lab.settled(at, model_updates(rule, at, lab.settings())), 0.5, CONSTANT)


@CLAIM.stated("other powers fail: λ/α = (2N)^{−c} gives the exponent 1 − c", SUPPORTED)
def needed(lab: Lab) -> Finding:
    at, s, found, wanted = lab.depths(), lab.settings(), {}, {}
    for c in (0.75, 1.5):
        rule = Net(f"(2*N)**({c / 2})", f"(2*N)**(-{c / 2})", "adam")
        found[f"c = {c}"] = lab.settled(at, model_updates(rule, at, s))
        wanted[f"c = {c}"] = 1 - c
    return lab.exponent(found, wanted, CONSTANT)


@CLAIM.ours("all parameters stepped", REFUTED)
def all_parameters(lab: Lab) -> Finding:
    at = lab.depths()
    return lab.exponent(lab.settled(at, model_updates(RULE, at, everything(lab))), 0.0)


@CLAIM.correction("all parameters with the derived learning-rate multipliers", SUPPORTED)
def all_with_multipliers(lab: Lab) -> Finding:
    found = scaled_updates(RULE, lab.depths(), everything(lab), 1e-6)
    return lab.exponent(lab.settled(lab.depths(), found), 0.0, GROWING)
