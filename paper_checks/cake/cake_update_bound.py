from dataclasses import replace
from itertools import product

from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, once, sp, torch
from paper_checks.shared.changes import bound_ratios, directions, moved, scaled
from paper_checks.shared.record import CAKE, DEEPNET, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, PLAIN

CLAIM = Claim(
    name="cake-update-bound",
    source=f"{CAKE}, §4.2 and §5.3; {DEEPNET}, Theorem 4.2",
    statement="‖ΔF‖ ≤ Σ_{i=1}^{2N} √(v_i² + w_i²)/α · ‖θ_i* − θ_i‖.",
    conditions="""torch encoders, 4 to 128 layers, widths 32 to 128, text and Gaussian tokens; v = w
        = β, Δθ_i of the scaled matrices; ‖ΔF‖ of one token, to first order""",
    finding="""One printed scalar sublayer obeys its term at any v, w and α. In DeepNorm stacks
        Theorem 4.2 holds for random Δθ, and is loose by √N. It fails for the Δθ of an optimizer,
        its actual subject: an SGD step changes a token's output by up to five times the bound at
        width 32. The excess grows as √d with the width d. In plain Post-LN of up to 128 layers it
        is more than a hundred times the bound. With DeepNorm the excess does not depend on depth,
        so the conclusion on exponents stands; the constant does not. In operator norms the bound is
        right (measured ratio below 0.5).""",
    counterexample="""One feed-forward sublayer, x = (1, −1, 1, −1), hidden layer (w, …, w) of eight
        units, V = 0, ΔV = ε hᵀu/‖h‖ with u = (1, 1, −1, −1)/2: ‖ΔF‖ = √8 wε/α, twice the bound √2
        wε/α of v = w.""",
    corrected="""‖Δx_{l+1}‖ ≤ ‖J_l Δx_l‖ + (‖h‖‖ΔV‖₂ + ‖V‖₂‖ΔW‖₂√d)/α with operator norms; in terms
        of Frobenius norms of Δθ the printed bound needs a factor of order √d for gradient
        steps.""",
    seconds=(11.0, 51),
)
WIDTHS = (32, 64, 128)
DEPTHS = ((4, 8, 16), (8, 32, 128))
NETS = {"DeepNorm": DEEPNORM, "plain": PLAIN}


@CLAIM.stated("one printed scalar sublayer: |∂f/∂θ · Δθ| ≤ √(v² + w²)/α · ‖Δθ‖|x|", PROVED)
def one_sublayer(lab: Lab) -> Finding:
    v, w, a, r = sp.symbols("v w alpha r", positive=True)
    dv, dw = sp.symbols("dv dw", real=True)
    # Cauchy and Schwarz leave |∂f/∂θ| ≤ √(v² + w²)/α, whose square over the bound's is in r alone
    sublayer = (a + v * w) / sp.sqrt(a**2 + v**2 * w**2)
    square = (sp.diff(sublayer, v) ** 2 + sp.diff(sublayer, w) ** 2) / ((v**2 + w**2) / a**2)
    ratio = sp.factor(sp.simplify(square.subs(v, r * a / w)))
    below = sp.Poly(sp.simplify((1 - ratio) * (1 + r**2) ** 3), r).coeffs()
    schwarz = (v**2 + w**2) * (dv**2 + dw**2) - (w * dv + v * dw) ** 2 - (v * dv - w * dw) ** 2
    return lab.proved(
        all(c > 0 for c in below) and sp.expand(schwarz) == 0,
        f"squared over the bound's at most {ratio} ≤ 1, r = vw/α; with Jacobians of 1 they add up",
    )


@CLAIM.stated("DeepNorm stacks, Δθ in random directions", SUPPORTED)
def random(lab: Lab) -> Finding:
    worst, plain = (largest(lab, "random", name) for name in NETS)
    what = "largest ‖ΔF‖ over the bound, any token, depth and data"
    return lab.seen(worst <= 1, f"{what}: {worst:.2f} (plain Post-LN: {plain:.2f})")


@CLAIM.stated("real stacks, Δθ an SGD step", REFUTED)
def stepped(lab: Lab) -> Finding:
    deep, plain = (largest(lab, "gradient", name) for name in NETS)
    return lab.seen(
        max(deep, plain) <= 1,
        f"the change exceeds the bound, by up to {deep:.1f} with DeepNorm and {plain:.0f} with "
        f"plain Post-LN; the smallest case: {smallest():.6f}",
    )


@CLAIM.stated("SGD steps at DeepNorm's constants: bound and change grow alike in depth", SUPPORTED)
def in_depth(lab: Lab) -> Finding:
    found = lab.power(lab.pick(*DEPTHS), ratios(lab)["gradient", "text", "DeepNorm"][0])
    rivals = (("random directions", -0.5), ("plain Post-LN", 1.0))
    what = "SGD: exponent of ‖ΔF‖ over the bound in N, DeepNorm, text"
    return lab.exponent(found, 0.0, rivals, what=what)


@CLAIM.correction("SGD steps: the change exceeds the bound in proportion to √d", SUPPORTED)
def in_width(lab: Lab) -> Finding:
    base = lab.small(dtype="float64", seeds=lab.pick(64, 96))
    wide, _ = bound_ratios(DEEPNORM, [(4, replace(base, width=d)) for d in WIDTHS], "gradient")
    found, rivals = lab.power(WIDTHS, wide), (("no dependence", 0.0), ("d", 1.0))
    what = "SGD: exponent of ‖ΔF‖ over the bound in width"
    return lab.exponent(found, 0.5, rivals, what=what, ratios=wide.mean(0).tolist())


@CLAIM.ours("random directions: the bound is loose by √N", SUPPORTED)
def slack(lab: Lab) -> Finding:
    found = lab.power(lab.pick(*DEPTHS), ratios(lab)["random", "text", "DeepNorm"][0])
    what = "random directions: exponent of ‖ΔF‖ over the bound in N"
    return lab.exponent(found, -0.5, (("aligned", 0.0),), what=what)


@CLAIM.correction("with operator norms: Σ (‖h‖‖ΔV‖ + ‖V‖‖ΔW‖‖x‖)/α", SUPPORTED)
def operator_norms(lab: Lab) -> Finding:
    every = product(lab.pick(*DEPTHS), lab.texts("gaussian:0"))
    worst = max(over_operator_norms(lab, n, data) for n, data in every)
    what = "largest ‖ΔF‖ over the operator-norm bound, SGD steps"
    return lab.seen(worst <= 1, f"{what}: {worst:.2f}")


@once
def ratios(lab: Lab) -> dict[tuple[str, str, str], tuple[Array, Array]]:
    """‖ΔF‖ over the bound, the mean token's and the worst's, by kind of Δθ, data and net.

    (seeds, depths) each.
    """
    found = {}
    for kind, data, name in product(("random", "gradient"), lab.texts("gaussian:0"), NETS):
        s = lab.small(dtype="float64", data=data, seeds=lab.pick(32, 24))
        points = [(n, s) for n in lab.pick(*DEPTHS)]
        found[kind, data, name] = bound_ratios(NETS[name], points, kind)
    return found


def largest(lab: Lab, kind: str, name: str) -> float:
    """The largest ratio of any token, draw, depth and data."""
    chosen = [worst for (k, _, n), (_, worst) in ratios(lab).items() if (k, n) == (kind, name)]
    return float(np.max(chosen))


def smallest() -> float:
    """‖ΔF‖ over the bound for one sublayer: d = 4, eight hidden units of w each, V = 0."""
    w, alpha, step, norm = 0.5, 1.5, 1e-6, torch.nn.functional.layer_norm
    x = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    u = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64) / 2
    hidden = torch.relu(x @ (w / 4 * x[:, None].expand(4, 8)))
    change = step * torch.outer(hidden / hidden.norm(), u)  # of V, as a gradient makes it
    images = [norm(alpha * x + hidden @ (s * change), (4,), eps=0.0) for s in (1, -1)]
    return float((images[0] - images[1]).norm() / 2 / (2**0.5 * w / alpha * step))


def over_operator_norms(lab: Lab, layers: int, data: str) -> float:
    """The worst token's ‖ΔF‖ over the corrected bound, SGD step, DeepNorm."""
    s = lab.small(dtype="float64", data=data)
    trial = DEEPNORM.trial(layers, s)
    changes, group = directions(trial, "gradient", 1e-5, scaled)
    delta = moved(trial, changes, [p for p, _ in group])
    alpha, _ = DEEPNORM.rule.entry("encoder", "*").at(N=layers)
    top = {
        (d.layer, d.name): [torch.linalg.matrix_norm(x, 2) for x in (p.detach(), changes[id(p)])]
        for p, d in group
    }
    total = torch.zeros(trial.seeds, dtype=torch.float64)
    for layer in range(layers):
        for first, last in (("value", "output"), ("fc1", "fc2")):
            (W, dW), (V, dV) = top[layer, first], top[layer, last]
            # relu and the softmax average do not lengthen: ‖h‖ ≤ ‖W‖√d, √d every token's length
            total += (W * dV + V * dW) * s.width**0.5 / alpha
    return float((delta.norm(dim=-1).flatten(1).amax(1) / total).max())
