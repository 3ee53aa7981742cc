from __future__ import annotations

from dataclasses import replace

from deepnet_theory.spec.expression import DEPTH, evaluate
from paper_checks.shared.bench import (
    Array,
    Claim,
    Finding,
    Fit,
    Lab,
    no_grad,
    np,
    numeric,
    once,
    torch,
)
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import PUBLISHED
from paper_checks.shared.stacks import Net, Pass, backward, lots, norms

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
        the stack an identity. What does is S·r² bounded: at r = (2N)^{−1/4}, small as it is, the
        output's cosine with the input falls from 0.41 to 0.02 between 16 and 144 layers; at r =
        (2N)^{−1/2} it stays 0.89, and under SGD's rule it rises to 0.99.""",
    counterexample="""r = (2N)^{−1/4} (α = (2N)^{1/4}, λ = 1): r = 0.24 at 144 layers, cosine of
        output and input 0.02.""",
    corrected="""The stack is near the identity if and only if S·r² → 0 (a constant share of the
        input survives for S·r² = O(1)); all three rules satisfy it.""",
    seconds=5,
    full_seconds=59,
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
    return lab.worst(
        *(
            lab.exponent(lost(lab, Net(*PUBLISHED[name])), power, (("S·r", power / 2 + 0.5),))
            for name, power in (("sgd", -0.5), ("lamb", -1.0), ("adam", -2.0))
        )
    )


@CLAIM.stated("∂L/∂x is O(1) in depth under the three rules", SUPPORTED)
def signal(lab: Lab) -> Finding:
    at = {
        f"{where}: {n}": f
        for where in ("bottom", "largest")
        for n, f in measured(lab)[where].items()
    }
    return lab.exponent(at, 0.0, EXPONENTIAL)


@CLAIM.stated("∂x/∂z is O(1) in depth under the three rules", SUPPORTED)
def jacobian(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["jacobian"], 0.0, EXPONENTIAL)


@CLAIM.ours("a small branch weight, r = (2N)^{−1/4}, is enough for it", REFUTED)
def small(lab: Lab) -> Finding:
    found = cosines(lab, Net("(2*N)**(1/4)", "1"), independent(lab))
    what = "exponent of the cosine of output and input"
    return lab.exponent(lab.settled(lab.depths(), found), 0.0, what=what)


@CLAIM.correction("−log of the cosine goes as S·r²: constant at r = (2N)^{−1/2}", SUPPORTED)
def law(lab: Lab) -> Finding:
    return lab.exponent(lost(lab, Net("(2*N)**(1/2)", "1")), 0.0, (("S·r", 0.5),))


@once
def measured(lab: Lab) -> dict[str, dict[str, Fit]]:
    """Exponents of branch weights, of the bottom and the largest signal, of norms' Jacobians."""
    found: dict[str, dict[str, Fit]] = {}
    for name in WEIGHTS:
        net, data = Net(*PUBLISHED[name]), ("width 128", "independent tokens", "correlated tokens")
        for label, s in lab.variations(data).items():
            if label == "width 128":  # for memory
                s = replace(s, seeds=4)
            columns: dict[str, list[torch.Tensor]] = {}
            for n in lab.depths():
                for quantity, value in quantities(net, n, s).items():
                    columns.setdefault(quantity, []).append(value)
            for quantity, values in columns.items():
                fit = lab.settled(lab.depths(), torch.stack(values, dim=1).double().numpy())
                found.setdefault(quantity, {})[f"{name}, {label}"] = fit
    return found


def quantities(net: Net, depth: int, s: numeric.Settings) -> dict[str, torch.Tensor]:
    """Of every seed at one depth."""
    trial, alpha = net.trial(depth, s), evaluate(DEPTH.parse(net.alpha), N=depth)
    p = backward(trial)
    signals = torch.stack([norms(x) for x in p.signals])
    branches = [norms(b) / norms(x) for b, x in zip(p.branches, p.states, strict=False)]
    return {
        "weight": torch.stack(branches).mean(0) / alpha,
        "bottom": signals[0],
        "largest": signals.amax(0),
        "jacobian": jacobians(trial, p, alpha),
    }


def jacobians(trial: numeric.Trial, p: Pass, alpha: float) -> torch.Tensor:
    """‖uᵀ ∂x/∂z‖/‖u‖ for a random u at the stack's own z, the mean over sublayers."""
    generator = torch.Generator().manual_seed(trial.settings.seed)
    sizes = []
    for residual, x, b in zip(trial.model.residuals(), p.states, p.branches, strict=False):
        z = (x + b / alpha).requires_grad_()
        u = torch.randn(z.shape, generator=generator, dtype=z.dtype)
        (back,) = torch.autograd.grad(residual.norms[0](z), z, u)
        sizes.append(norms(back) / norms(u))
    return torch.stack(sizes).mean(0)


def independent(lab: Lab) -> numeric.Settings:
    """Stacks of independent tokens, in double precision for small losses."""
    return lab.settings(seeds=32, width=32, tokens=16, dtype="float64", data="gaussian:0")


def lost(lab: Lab, net: Net) -> dict[str, Fit]:
    """The exponent of −log of the cosine of output and input, by data."""
    inputs = {"independent tokens": independent(lab)}
    if lab.full:
        inputs["text"] = replace(inputs["independent tokens"], data="text", seeds=96)
    return {n: lab.settled(lab.depths(), -np.log(cosines(lab, net, s))) for n, s in inputs.items()}


@no_grad
def cosines(lab: Lab, net: Net, s: numeric.Settings) -> Array:
    """The mean cosine of output and centred input over tokens: (seeds, depths)."""
    columns = []
    for depth in lab.depths():
        found = []
        for lot in lots(s, s.seeds // 16):  # for memory
            trial = net.trial(depth, lot)
            first, last = trial.inputs[-1], trial.output()
            first = first - first.mean(-1, keepdim=True)
            similar = torch.nn.functional.cosine_similarity(first, last, dim=-1)
            found.append(similar.flatten(1).mean(1).abs())
        columns.append(torch.cat(found))
    return torch.stack(columns, dim=1).double().numpy()
