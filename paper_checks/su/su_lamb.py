from deepnet_theory.definitions.expression import UPDATE
from paper_checks.shared.bench import Claim, Finding, Lab, once, torch
from paper_checks.shared.changes import everything, scaled_updates
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import Net, backward, lamb, model_updates, norms, update_exponents

CLAIM = Claim(
    name="su-lamb",
    source=f"{SU}, §Multiple optimizers, LAMB",
    statement=(
        "LAMB needs λ²/α = 1/(2N); its relative update is the learning rate η whatever α and λ are."
    ),
    conditions="post-LN encoder, first step without weight decay, 12 to 144 layers",
    finding="""λ²/α = 1/(2N) keeps LAMB's update constant in depth anywhere on that curve, and the
        relative update of LAMB's algorithm equals η whatever α and λ are. That is the algorithm:
        the printed Δθ = −η‖θ‖ sign(g) lacks its factor 1/√numel and would move a 32×32 matrix by 32
        η‖θ‖ and a 32×128 one by 64 η‖θ‖. With all parameters stepped LAMB's update grows as
        N^{0.98}, through LayerNorm's gains (biases begin at 0, where LAMB does not move them); with
        the derived multipliers it is constant.""",
    counterexample="One 32×32 matrix, no zero gradients: ‖−η‖θ‖ sign(g)‖ = 32 η‖θ‖.",
    corrected="""Δθ = −η‖θ‖ sign(g)/√numel, so that ‖Δθ‖/‖θ‖ = η; the update of all parameters is
        constant with the multiplier 1/(2N) on LayerNorm's gains.""",
    seconds=(4, 33),
)

RULE = Net("1", "(2*N)**(-1/2)", "lamb")
WRITTEN = "-eta*norm(theta)*sign(g)"
RIVALS = (("Adam's rule", -0.5), ("SGD's rule", 0.25))


@CLAIM.stated("α = 1, λ = (2N)^{−1/2} keeps LAMB's update constant in depth", SUPPORTED)
def balance(lab: Lab) -> Finding:
    found = update_exponents(RULE, lab.depths(), lab.variations())
    return lab.exponent(found, 0.0, RIVALS)


@CLAIM.stated("so does α = (2N)^{1/2}, λ = (2N)^{−1/4}", SUPPORTED)
def curve(lab: Lab) -> Finding:
    at, net = lab.depths(), Net("(2*N)**(1/2)", "(2*N)**(-1/4)", "lamb")
    return lab.exponent(lab.settled(at, model_updates(net, at, lab.settings())), 0.0, RIVALS)


@CLAIM.stated("the relative update ‖Δθ‖/‖θ‖ does not depend on α, λ", SUPPORTED)
def relative(lab: Lab) -> Finding:
    base, *others = (real for real, _ in sizes(lab))
    spread = max(abs(a / b - 1) for other in others for a, b in zip(other, base, strict=True))
    return lab.seen(spread < 0.01, f"the same within {spread:.1e} for three rules")


@CLAIM.stated("it equals η", SUPPORTED)
def real(lab: Lab) -> Finding:
    off = max(abs(x - 1) for real, _ in sizes(lab) for x in real)
    return lab.seen(off < 0.01, f"LAMB's algorithm: within {off:.1e} of η")


@CLAIM.ours("with the printed Δθ = −η‖θ‖ sign(g) it would, too", REFUTED)
def written(lab: Lab) -> Finding:
    found = [x for _, printed in sizes(lab) for x in printed]
    because = f"it is {min(found):.0f} to {max(found):.0f} times η: √numel of the matrix"
    return lab.seen(all(abs(x - 1) < 0.1 for x in found), because)


@CLAIM.correction("with Δθ = −η‖θ‖ sign(g)/√numel it does", SUPPORTED)
def fixed(lab: Lab) -> Finding:
    off = max(abs(x - 1) for x in extremes(lab, RULE, 8, f"{WRITTEN}/sqrt(numel(theta))"))
    return lab.seen(off < 0.1, f"within {off:.1e} of η: dead units have no gradient, and no step")


@CLAIM.ours("all parameters stepped", REFUTED)
def all_parameters(lab: Lab) -> Finding:
    at = lab.depths()
    return lab.exponent(lab.settled(at, model_updates(RULE, at, everything(lab))), 0.0)


@CLAIM.correction("all parameters with the derived learning-rate multipliers", SUPPORTED)
def all_with_multipliers(lab: Lab) -> Finding:
    found = scaled_updates(RULE, lab.depths(), everything(lab))
    return lab.exponent(lab.settled(lab.depths(), found), 0.0, (("one rate", 1.0),))


Extremes = tuple[float, float]


@once
def sizes(lab: Lab) -> list[tuple[Extremes, Extremes]]:
    """The least and the largest ‖Δθ‖/(η‖θ‖) under three rules: LAMB's algorithm, and as printed."""
    nets = (Net(), RULE, Net("(2*N)**(1/2)", "(2*N)**(-1/2)"))
    every = [(lab, net, depth) for net in nets for depth in lab.pick((8,), (8, 64))]
    return [(extremes(*one), extremes(*one, WRITTEN)) for one in every]


def extremes(lab: Lab, net: Net, depth: int, printed: str | None = None) -> Extremes:
    """The least and the largest of all matrices and seeds."""
    found = []
    for g in backward(net.trial(depth, lab.settings())).gradients:
        change = g.update(UPDATE.parse(printed)) if printed else lamb(g.theta, g.g)
        found.append(norms(change) / norms(g.theta))
    every = torch.stack(found)
    return float(every.min()), float(every.max())
