from collections.abc import Sequence
from dataclasses import dataclass

from paper_checks.shared.bench import Claim, Finding, Lab, Trial, judge, once, torch
from paper_checks.shared.record import MARGIN, REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import Gradient, Net, backward, torch_step
from paper_checks.shared.stacks import lamb as lamb_step

CLAIM = Claim(
    name="su-increment-sgd",
    source=f"{SU}, §Increment explosion and §Multiple optimizers, column ΔL of the table",
    statement="ΔL ≈ −η‖∇L‖² for SGD, −η‖∇L‖₁ for Adam, −η‖θ‖‖∇L‖₁ for LAMB.",
    conditions="""one small step of all branch matrices in float64; post-LN with and without a rule,
        pre-LN, 8 and 64 layers""",
    finding="""The first-order increments hold to 10⁻⁶ for torch's SGD and to 3·10⁻⁵ for its Adam.
        LAMB's does not hold as printed. The norm is taken per matrix and divided by √n_i, where n_i
        counts the entries with a gradient (those of dead ReLU units have none). Read matrix by
        matrix, the printed formula is √n_i times too large, 45 to 100 times at widths 32 and 64.
        Read for all matrices together, it is 300 to 3,400 times too large. The factor does not
        depend on N, so no rule changes.""",
    counterexample="""One matrix θ = (1, 0) with gradient (1, 1): LAMB's step is −η(1, 1)/√2, so ΔL
        = −1.41 η, and −η‖θ‖‖∇L‖₁ = −2 η.""",
    corrected="ΔL ≈ −η Σ_i ‖θ_i‖‖g_i‖₁/√n_i over the matrices i.",
)

NETS = (Net("(2*N)**(1/4)", "(2*N)**(-1/4)"), Net(), Net(placement="pre-ln"))


@judge
def exact(lab: Lab, optimizer: str, whose: str = "") -> Finding:
    """Whether all steps are as the formula says."""
    ratios = [s.ratio for s in measured(lab)[optimizer]]
    off = max(abs(ratio - 1) for ratio in ratios)
    return lab.seen(off < MARGIN, f"ratio 1 within {off:.1e}{whose}", ratios=ratios)


CLAIM.stated("−η‖∇L‖² for SGD", SUPPORTED)(exact("sgd"))
CLAIM.stated("−η‖∇L‖₁ for Adam", SUPPORTED)(exact("adam", " with torch's Adam, whose ε is 10⁻⁸"))


@CLAIM.stated("−η‖θ‖‖∇L‖₁ for LAMB, of all matrices together or matrix by matrix", REFUTED)
def written(lab: Lab) -> Finding:
    steps = measured(lab)["lamb"]
    together = [s.ratio * s.formula / s.together for s in steps]
    by_matrix = [s.ratio * s.formula / s.by_matrix for s in steps]
    return lab.seen(
        any(all(abs(r - 1) < MARGIN for r in reading) for reading in (together, by_matrix)),
        f"the step is {min(together):.2g} to {max(together):.2g} of the formula, matrix by matrix "
        f"{min(by_matrix):.2g} to {max(by_matrix):.2g}",
    )


CLAIM.correction(
    "−η Σ ‖θ_i‖‖g_i‖₁/√n_i over the matrices for LAMB, n_i entries with a gradient", SUPPORTED
)(exact("lamb"))


@dataclass(frozen=True)
class Step:
    """One step: −ΔL/η over the formula that should give it, and LAMB's formula as printed."""

    ratio: float
    formula: float
    together: float
    by_matrix: float


@once
def measured(lab: Lab) -> dict[str, list[Step]]:
    """A step of each optimizer in three networks."""
    s, found = lab.settings(dtype="float64", seeds=2), {}
    points = [(net, depth) for net in NETS for depth in lab.pick((8,), (8, 64))]
    for optimizer in ("sgd", "adam", "lamb"):
        found[optimizer] = [one(net.trial(depth, s), optimizer) for net, depth in points]
    return found


def one(trial: Trial, optimizer: str) -> Step:
    """A small step of the first seed."""
    p = backward(trial)
    absolutes = [float(g.absolute()[0]) for g in p.gradients]
    sizes = [float(g.theta[0].norm()) for g in p.gradients]
    counts = [int(g.g[0].count_nonzero()) for g in p.gradients]
    products = [size * a for size, a in zip(sizes, absolutes, strict=True)]
    formula = {
        "sgd": sum(float(g.g[0].norm()) ** 2 for g in p.gradients),
        "adam": sum(absolutes),
        "lamb": sum(x / n**0.5 for x, n in zip(products, counts, strict=True)),
    }[optimizer]
    eta = 1e-6 / formula
    step(optimizer, p.gradients, eta)
    change = float((trial.loss(trial.output()) - p.loss)[0])
    whole = sum(size**2 for size in sizes) ** 0.5
    return Step(-change / eta / formula, formula, whole * sum(absolutes), sum(products))


def step(optimizer: str, gradients: Sequence[Gradient], eta: float) -> None:
    """One step of every seed: torch's optimizers, or the algorithm of the LAMB paper."""
    own = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    for one in gradients:
        if optimizer == "lamb":
            one.theta.add_(eta * lamb_step(one.theta, one.g))
        else:
            torch_step(own[optimizer], one.theta, one.g, lr=eta)
