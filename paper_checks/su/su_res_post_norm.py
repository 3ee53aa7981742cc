from itertools import pairwise

from paper_checks.shared.bench import Claim, Finding, Fit, Lab, Tensor, once, torch
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import SCALED
from paper_checks.shared.stacks import Net, residual_sums, update_exponents, updates_at

CLAIM = Claim(
    name="su-res-post-norm",
    source=f"{SU}, reply on SwinV2's res-post-norm, 2023-08",
    statement="""In x + LN(f(x))/α the gain λ does not affect the branch's magnitude, so take λ = 1
        and set α.""",
    conditions="""res-post-LN encoder with final norm, λ from 1/4 to 4 at 8 layers, text,
        independent and correlated tokens, widths 32 to 128; Adam with α = 2N at 12 to 144
        layers""",
    finding="""λ leaves the branch's magnitude alone in res-post-norm, with ReLU the branch itself,
        and λ = 1 with α = 2N does balance Adam. But λ is not without effect: behind a norm the
        gradient scales as 1/(αλ), so a smaller gain makes the update larger, as λ^{−2} under SGD
        and λ^{−1} under Adam. Only for LAMB is λ immaterial.""",
    counterexample="""λ = 1/4 in place of 1, same α: ‖ΔF‖/η is 16 times as large under SGD, 4 times
        under Adam, with the same output.""",
    corrected="""‖∂L/∂W‖ ~ 1/(αλ) for a branch that ends in a norm: fix λ = 1 because it sets the
        unit of the learning rate, not because it is immaterial.""",
    seconds=(2, 19),
)

LAMS = (0.25, 0.5, 1.0, 2.0, 4.0)
PLACE = "res-post-ln"


@CLAIM.stated("λ does not change the branch's magnitude, with ReLU or GELU", SUPPORTED)
def magnitude(lab: Lab) -> Finding:
    found = {
        f"{activation}, {lam:g}": lab.mean((size / sizes[1.0]).numpy())
        for activation, (sizes, _) in branches(lab).items()
        for lam, size in sizes.items()
    }
    return lab.ratio(found, "rms beside λ = 1")


@CLAIM.ours("λ does not change the branch", SUPPORTED)
def branch(lab: Lab) -> Finding:
    off = {}
    for activation, (_, outputs) in branches(lab).items():
        whole = outputs[1.0]
        off[activation] = max(float((o - whole).norm() / whole.norm()) for o in outputs.values())
    return lab.seen(
        off["relu"] < 1e-2,  # LN's ε is 10⁻⁵ beside a variance of 4⁻⁴ at λ = 1/4
        f"the output changes by at most {off['relu']:.1e} for λ from 1/4 to 4 with ReLU "
        f"(LN's ε), by {off['gelu']:.2f} with GELU, which is not homogeneous",
    )


@CLAIM.ours("so λ does not matter for the update", REFUTED)
def update(lab: Lab) -> Finding:
    return lab.exponent(slopes(lab)["sgd"] | slopes(lab)["adam"], 0.0)


@CLAIM.correction(
    "‖∂L/∂W‖ ~ 1/(αλ): the update scales as λ^{−2} under SGD and λ^{−1} under Adam", SUPPORTED
)
def law(lab: Lab) -> Finding:
    rivals, powers = (("no effect", 0.0),), {"sgd": -2.0, "adam": -1.0}
    return lab.worst(*(lab.exponent(slopes(lab)[n], p, rivals) for n, p in powers.items()))


@CLAIM.stated("λ = 1 and α = 2N keep Adam's update constant in depth", SUPPORTED)
def alpha(lab: Lab) -> Finding:
    found = update_exponents(Net("2*N", "1", "adam", PLACE), lab.depths(), lab.variations())
    return lab.exponent(found, 0.0, (("post-LN's rule", 0.5),))


@CLAIM.ours("under LAMB λ does not matter for the update of the scaled matrices", SUPPORTED)
def lamb(lab: Lab) -> Finding:
    return lab.exponent(slopes(lab)["lamb"], 0.0, (("Adam's", -1.0),))


@once
def branches(lab: Lab) -> dict[str, tuple[dict[float, Tensor], dict[float, Tensor]]]:
    """By activation and λ: the rms of x_{l+1} − x_l of every seed, and the output."""
    found: dict[str, tuple[dict[float, Tensor], dict[float, Tensor]]] = {}
    for activation in ("relu", "gelu"):
        sizes, outputs = found.setdefault(activation, ({}, {}))
        for lam in LAMS:
            net = Net("16", repr(lam), placement=PLACE)
            trial = net.trial(8, lab.settings(activation=activation))
            steps = torch.stack([b - a for (_, a, _), (_, b, _) in pairwise(residual_sums(trial))])
            sizes[lam] = steps.double().square().transpose(0, 1).flatten(1).mean(1).sqrt()
            outputs[lam] = trial.output()
    return found


@once
def slopes(lab: Lab) -> dict[str, dict[str, Fit]]:
    """The exponents in λ of the update of the scaled matrices, by optimizer and condition."""
    found: dict[str, dict[str, Fit]] = {name: {} for name in ("sgd", "adam", "lamb")}
    data = ("independent tokens", "correlated tokens", "width 128")
    for label, s in lab.variations(data).items():
        for name, fits in found.items():
            points = [(Net("16", repr(lam), name, PLACE), 8, s) for lam in LAMS]
            values = updates_at(points, lambda d: d.name in SCALED)
            fits[f"{name}, {label}"] = lab.settled(LAMS, values)
    return found
