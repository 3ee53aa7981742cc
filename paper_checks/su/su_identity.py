from dataclasses import replace

from paper_checks.shared.bench import Claim, Finding, Fit, Lab, Settings, Tensor, np, once, torch
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import PUBLISHED
from paper_checks.shared.stacks import Net, Pass, cosines, exponents, lots, norms

CLAIM = Claim(
    name="su-identity",
    source=f"{SU}, §Post-hoc analysis, first paragraph",
    statement="""After scaling, each residual branch has weight λ²/α, a small number for every
        optimizer, so the model is nearly an identity and ∂L/∂x, ∂x/∂z are O(1).""",
    conditions="""post-LN encoder at initialisation under the three rules, 12 to 144 layers, text
        and Gaussian tokens, widths 32 to 128""",
    finding="""Under the three rules the branch weight falls as N^{−3/4}, N^{−3/2} and N^{−1}, the
        stack comes ever nearer to the identity, and both ∂L/∂x and ∂x/∂z are constant in depth. The
        reason given would be too weak for other rules: that λ²/α is a small number does not make
        the stack an identity. A bounded S·r² does: at r = (2N)^{−1/4}, small as it is, the output's
        cosine with the input falls from 0.41 to 0.02 between 16 and 144 layers; at r = (2N)^{−1/2}
        it stays 0.89, and under SGD's rule it rises to 0.99.""",
    counterexample="""r = (2N)^{−1/4} (α = (2N)^{1/4}, λ = 1): r = 0.24 at 144 layers, cosine of
        output and input 0.02.""",
    corrected="""The stack is near the identity if and only if S·r² → 0 (a constant share of the
        input survives for S·r² = O(1)); all three rules satisfy it.""",
    seconds=(5, 59),
)

WEIGHTS = {"sgd": -0.75, "adam": -1.5, "lamb": -1.0}  # the exponents of λ²/α in N
EXPONENTIAL = (("exponential", -1.0),)


@CLAIM.stated("the branch weight is λ²/α: exponents −3/4, −3/2, −1 for SGD, Adam, LAMB", SUPPORTED)
def weight(lab: Lab) -> Finding:
    found = measured(lab)["weight"]
    wanted = {label: WEIGHTS[label.split(",")[0]] for label in found}
    return lab.exponent(found, wanted, (("constant", 0.0),))


@CLAIM.stated(
    "the stack is nearly an identity: −log of the cosine of output and input falls as S·r²",
    SUPPORTED,
)
def near(lab: Lab) -> Finding:
    judged = [
        lab.exponent(lost(lab, Net(*PUBLISHED[name])), power, (("S·r", power / 2 + 0.5),))
        for name, power in (("sgd", -0.5), ("lamb", -1.0), ("adam", -2.0))
    ]
    return lab.worst(*judged)


@CLAIM.stated("∂L/∂x is O(1) in depth under the three rules", SUPPORTED)
def signal(lab: Lab) -> Finding:
    ends = ("bottom", "largest")
    at = {f"{where}: {n}": f for where in ends for n, f in measured(lab)[where].items()}
    return lab.exponent(at, 0.0, EXPONENTIAL)


@CLAIM.stated("∂x/∂z is O(1) in depth under the three rules", SUPPORTED)
def jacobian(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["jacobian"], 0.0, EXPONENTIAL)


@CLAIM.ours("a small branch weight, r = (2N)^{−1/4}, is enough for it", REFUTED)
def small(lab: Lab) -> Finding:
    fit = kept(lab, Net("(2*N)**(1/4)", "1"), independent(lab), loss=False)
    return lab.exponent(fit, 0.0, what="exponent of the cosine of output and input")


@CLAIM.correction("−log of the cosine scales as S·r²: constant at r = (2N)^{−1/2}", SUPPORTED)
def law(lab: Lab) -> Finding:
    return lab.exponent(lost(lab, Net("(2*N)**(1/2)", "1")), 0.0, (("S·r", 0.5),))


@once
def measured(lab: Lab) -> dict[str, dict[str, Fit]]:
    """Exponents of branch weights, of the bottom and the largest signal, of norms' Jacobians."""
    quantities = {
        "weight": weights,
        "bottom": lambda p: norms(p.signals[0]),
        "largest": lambda p: torch.stack([norms(x) for x in p.signals]).amax(0),
        "jacobian": jacobians,
    }
    conditions = lab.variations(("width 128", "independent tokens", "correlated tokens"))
    if lab.full:  # for memory
        conditions["width 128"] = replace(conditions["width 128"], seeds=4)
    found: dict[str, dict[str, Fit]] = {name: {} for name in quantities}
    for name in WEIGHTS:
        of = exponents(Net(*PUBLISHED[name]), lab.depths(), conditions, quantities)
        for quantity, fits in of.items():
            found[quantity] |= {f"{name}, {label}": fit for label, fit in fits.items()}
    return found


def weights(p: Pass) -> Tensor:
    """‖G(x)‖/(α‖x‖), the mean over sublayers."""
    residuals = zip(p.trial.model.residuals(), p.branches, p.states, strict=False)
    return torch.stack([norms(b) / norms(x) / r.alpha for r, b, x in residuals]).mean(0)


def jacobians(p: Pass) -> Tensor:
    """‖uᵀ ∂x/∂z‖/‖u‖ for a random u at the stack's own z, the mean over sublayers."""
    generator = torch.Generator().manual_seed(p.trial.settings.seed)
    sizes = []
    for residual, x, b in zip(p.trial.model.residuals(), p.states, p.branches, strict=False):
        z = (x + b / residual.alpha).requires_grad_()
        u = torch.randn(z.shape, generator=generator, dtype=z.dtype)
        (back,) = torch.autograd.grad(residual.norms[0](z), z, u)
        sizes.append(norms(back) / norms(u))
    return torch.stack(sizes).mean(0)


def independent(lab: Lab) -> Settings:
    """Stacks of independent tokens, in double precision for small losses."""
    return lab.settings(seeds=32, width=32, tokens=16, dtype="float64", data="gaussian:0")


def lost(lab: Lab, net: Net) -> dict[str, Fit]:
    """The exponent of −log of the cosine of output and input, by data."""
    inputs = {"independent tokens": independent(lab)}
    if lab.full:
        inputs["text"] = replace(inputs["independent tokens"], data="text", seeds=96)
    return {label: kept(lab, net, s, loss=True) for label, s in inputs.items()}


def kept(lab: Lab, net: Net, s: Settings, *, loss: bool) -> Fit:
    """The exponent of the mean cosine of output and centred input over tokens, or its −log."""
    columns = []
    for depth in lab.depths():
        lines = []
        for lot in lots(s, s.seeds // 16):  # for memory
            trial = net.trial(depth, lot)
            first = trial.inputs[-1] - trial.inputs[-1].mean(-1, keepdim=True)
            lines.append(cosines([first, trial.output()])[1])
        columns.append(np.abs(np.concatenate(lines)))
    found = lab.columns(columns)
    return lab.settled(lab.depths(), -np.log(found) if loss else found)
