from typing import Any

from paper_checks.shared.bench import (
    Array,
    Claim,
    Finding,
    Interval,
    Lab,
    judge,
    np,
    once,
    sp,
    torch,
)
from paper_checks.shared.changes import bound_ratios, directions, moved, scaled
from paper_checks.shared.gaussian import LinearAttention, expect, squared
from paper_checks.shared.record import CAKE, MARGIN, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, Net, norms
from paper_checks.shared.sublayer import averaged, head_weights, moves

CLAIM = Claim(
    name="cake-attention-bound",
    source=f"{CAKE}, §5.2",
    statement="""‖Δx_{l+1}‖ ≤ ‖Δx_l‖ + √(v² + w²)/α ‖Δθ_l‖ for the attention sublayer too, with Attn
        = XW_VW_O; several heads are one W_V side by side.""",
    conditions="""linear branch with variances v²/d, w²/d; built softmax attention with 1 to 8
        heads, widths 32 to 256, text and Gaussian tokens, 1 to 64 of them; value and output
        matrices stepped""",
    finding="""For the linear branch xW_VW_O with independent Δθ and Δx both terms are proved, and
        the number of heads has no effect on real softmax attention at all (exponent 0 within 0.02).
        For gradient steps the bound fails by up to a factor of seven at width 32; for one token the
        excess is proportional to √d, for many independent ones it grows more slowly. The
        substitution Attn = XW_VW_O loses something else: with query and key at gain 1 the scores'
        own response makes up 0.66 to 0.78 of the branch's change when tokens move independently,
        and 0.17 to 0.35 when they move together.""",
    counterexample="""One token, d = 3, N = 1: x = (1, −2, 1)/√2, W_V = W_O = βI, a gradient step
        for a loss whose derivative at the output is along (1, 0, −1): ‖Δx_2‖ = √6 β/(α + β²) ‖Δθ‖ =
        0.94‖Δθ‖, above √2 β/α ‖Δθ‖ = 0.71‖Δθ‖ (α = 2^{1/4}, β = 8^{−1/4}).""",
    corrected="""With operator norms, ‖∂LN/∂z‖(‖hW‖‖ΔW_O‖₂ + ‖W_O‖₂‖ΔhW‖), for the parameters; for
        Δx the scores' derivative has to be kept, since query and key have gain 1 and it is of the
        same order as the value path.""",
    seconds=4.0,
)
HEADS = (1, 2, 4, 8)
SINGLE = Net("32**(1/4)", "128**(-1/4)", layer="attention")  # one sublayer of 16 DeepNorm layers


@CLAIM.stated("linear branch of h heads, Δθ independent: E‖·‖² ≤ (v² + w²)E‖Δθ‖²", PROVED)
def linear_parameters(lab: Lab) -> Finding:
    same = []
    for a in map(LinearAttention, (1, 2, 3)):
        term = a.w**2 * squared(a.dV) + a.v**2 * squared(a.dW)
        same.append(sp.expand(a.parameter_term() - term) == 0)
    because = "the left is w²‖ΔW_V‖² + v²‖ΔW_O‖²; the heads' W_V side by side are one matrix"
    return lab.proved(all(same), because)


@CLAIM.stated("linear branch of h heads, Δx independent: E‖∂z/∂x Δx‖² = (α² + v²w²)‖Δx‖²", PROVED)
def linear_input(lab: Lab) -> Finding:
    alpha, same = sp.Symbol("alpha", positive=True), []
    for a in map(LinearAttention, (1, 2, 3)):
        square = expect(squared(alpha * a.x + a.x * a.V * a.W), a.variances)
        same.append(sp.expand(square - (alpha**2 + a.v**2 * a.w**2) * squared(a.x)) == 0)
    return lab.proved(all(same), "contracted, for any Δx; the heads' W_V are one matrix")


@CLAIM.stated("real attention, Δθ in random directions: the mean token within the bound", SUPPORTED)
def random(lab: Lab) -> Finding:
    means = {}
    for data in lab.texts("gaussian:0"):
        means[f"{data}, one sublayer"] = lab.mean(alone(lab, "random", data)[0][:, 0])
        means[f"{data}, stack"] = lab.mean(stacks(lab)["random", data][0][:, -1])
    what = "the mean token's change over the bound"
    return lab.at_most(means, 1.0, what, 0.0, largest_of_any_token=largest(lab, "random"))


@judge
def in_heads(lab: Lab, kind: str) -> Finding:
    slopes = {
        data: lab.power(HEADS, stacks(lab)[kind, data][0]) for data in lab.texts("gaussian:0")
    }
    return lab.exponent(slopes, 0.0, what=f"exponent in the number of heads, {kind} directions")


CLAIM.stated(
    "real attention: the change does not depend on the number of heads, random directions",
    SUPPORTED,
)(in_heads("random"))
CLAIM.stated(
    "real attention: the change does not depend on the number of heads, SGD step", SUPPORTED
)(in_heads("gradient"))


@CLAIM.stated("real attention, Δθ an SGD step: within the bound", REFUTED)
def stepped(lab: Lab) -> Finding:
    worst = largest(lab, "gradient")
    return lab.seen(worst <= 1, f"largest over the bound, any token of any draw: {worst:.2f}")


@CLAIM.ours(
    "the softmax's own derivative may be dropped: ∂Attn/∂x Δx is that of the fixed average", REFUTED
)
def scores(lab: Lab) -> Finding:
    shares = {
        f"{data}, tokens moved {way}": lab.mean(share_of_scores(lab, data, way))
        for data in lab.texts()
        for way in ("independently", "together")
    }
    return lab.within(shares, 0.0, MARGIN, "what the moving scores add to ‖ΔAttn‖, relative")


@CLAIM.correction(
    "SGD step of one sublayer and one token: the change exceeds the bound in proportion to √d",
    SUPPORTED,
)
def law(lab: Lab) -> Finding:
    slopes = {f"{data}, 1 token": in_width(lab, 1, data) for data in ("text", "gaussian:0")}
    others = [(data, n) for data in ("text", "gaussian:0") for n in lab.pick((), (16, 64))]
    rivals = (("none", 0.0), ("d", 1.0))
    what = "SGD step: exponent of change over bound in width"
    many_tokens = {f"{data}, {n} tokens": in_width(lab, n, data).estimate for data, n in others}
    return lab.exponent(slopes, 0.5, rivals, what=what, many_tokens=many_tokens)


@CLAIM.correction(
    "SGD step of one sublayer: within ‖∂LN/∂z‖(‖hW‖‖ΔW_O‖₂ + ‖W_O‖₂‖ΔhW‖), h the head averages",
    SUPPORTED,
)
def operator_norms(lab: Lab) -> Finding:
    ratios = [over_operator_norms(lab, data) for data in lab.texts()]
    worst, typical = max(r.max() for r in ratios), max(r.mean() for r in ratios)
    because = f"largest over that bound, any token of any draw: {worst:.2f}, mean {typical:.2f}"
    return lab.seen(bool(worst <= 1), because)


@once
def stacks(lab: Lab) -> dict[tuple[str, str], tuple[Array, Array]]:
    """The mean token's change and the worst's over the bound: (seeds, numbers of heads) each."""
    layers, seeds, found = lab.pick(4, 16), lab.pick(16, 32), {}
    for kind in ("random", "gradient"):
        for data in lab.texts("gaussian:0"):
            settings = [lab.small(dtype="float64", heads=h, data=data, seeds=seeds) for h in HEADS]
            points = [(layers, s) for s in settings]
            attention = lambda d: scaled(d) and d.kind == "attention"  # noqa: E731
            found[kind, data] = bound_ratios(DEEPNORM, points, kind, attention)
    return found


def alone(lab: Lab, kind: str, data: str) -> tuple[Array, Array]:
    """The same of one sublayer: (seeds, 1) each."""
    s = lab.small(dtype="float64", data=data, seeds=lab.pick(16, 64))
    return bound_ratios(SINGLE, [(1, s)], kind)


def largest(lab: Lab, kind: str) -> float:
    """Of any token, draw and data, in stacks and one sublayer."""
    data = lab.texts("gaussian:0")
    ratios = [r for d in data for r in (stacks(lab)[kind, d], alone(lab, kind, d))]
    return float(max(worst.max() for _, worst in ratios))


def in_width(lab: Lab, tokens: int, data: str) -> Interval:
    """The exponent in d of the mean token's change over the bound, one sublayer stepped."""
    widths = (64, 128, 256) if tokens == 1 else (32, 64, 128)
    given = {"dtype": "float64", "seeds": 48, "data": data, "tokens": tokens}
    points = [(1, lab.small(width=d, **given)) for d in widths]
    return lab.power(widths, bound_ratios(SINGLE, points, "gradient")[0])


def share_of_scores(lab: Lab, data: str, way: str) -> Array:
    """‖ΔAttn − (fixed softmax) Δ(xW_V)W_O‖/‖ΔAttn‖ for a random change of the tokens."""
    trial = Net(layer="attention").trial(1, lab.small(dtype="float64", seeds=16, data=data))
    branch: Any = next(trial.model.residuals()).branch
    x = trial.inputs[0]
    dx = 1e-5 * moves(torch.Generator().manual_seed(lab.seed), x, way)
    whole = (branch(x + dx) - branch(x - dx)) / 2
    fixed = branch.output(averaged(branch, head_weights(branch, x), branch.value(dx)))
    return np.asarray(norms(whole - fixed) / norms(whole))


def over_operator_norms(lab: Lab, data: str) -> Array:
    """‖Δx_{l+1}‖ of every token over the bound with operator norms, (seeds, tokens)."""
    s = lab.small(dtype="float64", seeds=lab.pick(16, 64), data=data)
    trial = SINGLE.trial(1, s)
    changes, group = directions(trial, "gradient", 1e-5, scaled)
    delta = moved(trial, changes, [p for p, _ in group]).norm(dim=-1)
    by_name = {d.name: (p, changes[id(p)]) for p, d in group}
    residual, x = next(trial.model.residuals()), trial.inputs[0]
    branch: Any = residual.branch
    weights = head_weights(branch, x)
    heads = averaged(branch, weights, branch.value(x))
    moved_heads = averaged(branch, weights, x @ by_name["value"][1].mT.unsqueeze(1))
    z = residual.alpha * x + branch(x)
    slope = x.shape[-1] ** 0.5 / (z - z.mean(-1, keepdim=True)).norm(dim=-1)
    output, change = (torch.linalg.matrix_norm(y, 2).view(-1, 1, 1) for y in by_name["output"])
    bound = slope * (heads.norm(dim=-1) * change + output * moved_heads.norm(dim=-1))
    return np.asarray((delta / bound).flatten(1))
