from paper_checks.shared.bench import Claim, Finding, Interval, Lab, Settings, once
from paper_checks.shared.record import REFUTED, RETOLD, SUPPORTED
from paper_checks.shared.rules import SCALED
from paper_checks.shared.stacks import Net, Pass, at_points, updates_at

CLAIM = Claim(
    name="retold-roles",
    source=f"{RETOLD}, §5 First conclusions, grey box",
    statement="α is responsible for scaling the gradient, λ for scaling the initialisation.",
    conditions="""post-LN stacks of 4 and 16 layers with branch weight λ²/α ≤ 1/64 and ReLU; λ from
        1/8 to 1/2, α from 16 to 64; text and independent tokens, widths 32 to 128""",
    finding="""α scales the gradients and leaves the weights alone, and λ scales the weights: so far
        the retelling is right. But λ scales the gradients just as much, ‖∂L/∂W‖ ~ λ/α with both
        exponents within 0.002, so that the knobs do not divide the labour. What α alone controls is
        the relative update of SGD, which scales as 1/α; an optimizer of degrees (p, q) sees
        α^{−(1+p)} λ^{1+p+q}.""",
    counterexample="z = x + λ²φ(xU₁)U₂/α: halving λ halves ∂z/∂W₁ = λ·(…)/α as well as W₁.",
    corrected="""α scales the gradients (by 1/α) and not the weights; λ scales both, so only λ
        changes what the weights are compared with: relative updates scale as 1/α, whatever λ is,
        for SGD.""",
    seconds=(1, 36),
)

POINTS = [(lam, alpha) for lam in (0.125, 0.25, 0.5) for alpha in (16.0, 32.0, 64.0)]
LAYERS = (4, 16)
LAMBDA, ALPHA = 0, 1  # the knobs' places in a point
DEGREES = {"sgd": (1, 0), "adam": (0, 0), "lamb": (0, 1)}
NONE = (("none", 0.0),)


@CLAIM.stated("α scales the gradient and leaves the initial weights alone", SUPPORTED)
def alpha_scales(lab: Lab) -> Finding:
    gradients, weights = sizes_in(lab, "gradient", ALPHA), sizes_in(lab, "weight", ALPHA)
    return lab.worst(
        lab.exponent(gradients, -1.0, NONE, what="gradient in α", points=POINTS),
        lab.exponent(weights, 0.0, what="weights in α"),
    )


@CLAIM.stated("λ scales the initial weights", SUPPORTED)
def lambda_scales(lab: Lab) -> Finding:
    return lab.exponent(sizes_in(lab, "weight", LAMBDA), 1.0, NONE, what="weights in λ")


@CLAIM.ours("λ leaves the gradient alone", REFUTED)
def lambda_leaves(lab: Lab) -> Finding:
    return lab.exponent(sizes_in(lab, "gradient", LAMBDA), 0.0, what="gradient in λ")


@CLAIM.correction(
    "λ scales gradient and initial weights alike: ‖∂L/∂W‖ ~ λ/α for λ₁ = λ₂ = λ", SUPPORTED
)
def alike(lab: Lab) -> Finding:
    return lab.exponent(sizes_in(lab, "gradient", LAMBDA), 1.0, NONE, what="gradient in λ")


@CLAIM.correction("an optimizer of degree (p, q) sees α^{−(1+p)} λ^{1+p+q}", SUPPORTED)
def updates(lab: Lab) -> Finding:
    found, wanted = {}, {}
    for label, s in conditions(lab).items():
        for name, (p, q) in DEGREES.items():
            points = [(net(point, name), lab.pick(*LAYERS), s) for point in POINTS]
            fits = lab.powers(POINTS, updates_at(points, lambda d: d.name in SCALED))
            for knob, degree in ((LAMBDA, 1 + p + q), (ALPHA, -(1 + p))):
                case = f"{name} in {'λα'[knob]}, {label}"
                found[case], wanted[case] = fits[knob], float(degree)
    return lab.exponent(found, wanted, what="‖ΔF‖/η")


def conditions(lab: Lab) -> dict[str, Settings]:
    """The stacks that are measured."""
    found = {"text": lab.settings()}
    if lab.full:
        found["independent tokens"] = lab.settings(data="gaussian:0")
        found["width 128"] = lab.settings(width=128, tokens=16)
    return found


def net(point: tuple[float, float], optimizer: str = "sgd") -> Net:
    """A stack at one λ and α."""
    return Net(repr(point[ALPHA]), repr(point[LAMBDA]), optimizer)


@once
def sizes(lab: Lab) -> dict[str, dict[str, tuple[Interval, ...]]]:
    """The exponents of ‖W‖ and ‖∂L/∂W‖ in λ and α, by quantity and condition."""

    found: dict[str, dict[str, tuple[Interval, ...]]] = {"weight": {}, "gradient": {}}
    for label, s in conditions(lab).items():
        points = [(net(point), lab.pick(*LAYERS), s) for point in POINTS]
        for name, values in at_points(
            points, {"weight": Pass.weight, "gradient": Pass.size}
        ).items():
            found[name][label] = lab.powers(POINTS, values)
    return found


def sizes_in(lab: Lab, quantity: str, knob: int) -> dict[str, Interval]:
    """The exponent of a quantity in one knob, by condition."""
    return {label: fits[knob] for label, fits in sizes(lab)[quantity].items()}
