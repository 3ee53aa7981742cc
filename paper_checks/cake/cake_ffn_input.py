from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Tensor, judge, np, once, sp
from paper_checks.shared.changes import directions
from paper_checks.shared.gaussian import SIZES, FeedForward, squared
from paper_checks.shared.record import CAKE, MARGIN, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, PLAIN, Net, norms, residual_sums
from paper_checks.shared.sublayer import averaged, feed_forward, head_weights, moves, normalised

CLAIM = Claim(
    name="cake-ffn-input",
    source=f"{CAKE}, §5.1 (1) and (3)",
    statement="E‖∂z/∂x Δx‖² = (α² + v²w²)E‖Δx‖², so ‖∂z/∂x Δx‖ ≈ √(α² + v²w²)‖Δx‖.",
    conditions="""Gaussian W, V; Δx independent of them, or made by an SGD step of the layers below
        in built stacks of width 64 on text and Gaussian tokens of correlation 0 and 0.5; attention
        with 4 to 64 independent tokens""",
    finding="""The equality is exact for every Δx that does not depend on the sublayer's weights:
        the ReLU mask halves the square of any direction. It is a mean and no bound: 47 % of the
        draws lie above it. For the Δx that an SGD step of the lower layers really makes it holds
        within 1 % under DeepNorm, the case of the source. Beyond that case it is 1.11 to 1.15 times
        too small in plain Post-LN, since such a Δx has passed back through the same weights. It
        fails for attention: if tokens change independently, the average passes only Σs² of the
        change (0.13 at 16 tokens, 0.04 at 64), and the changing scores multiply this by 2.7
        (3.7).""",
    counterexample="""Attention over two equal tokens, n = 2, x_1 = x_2, Δx_2 = −Δx_1: both weights
        are 1/2 whatever the scores do, the average does not move, and ‖∂z/∂x Δx‖² = α²‖Δx‖². A
        signal sent back through the scalar J = α ± vw, α = vw = 1: E(JΔx)² = E J⁴g² = 8g², where
        (α² + v²w²)E Δx² = 4g².""",
    corrected="""E‖∂z/∂x Δx‖² = (α² + v²w²)‖Δx‖² for the feed-forward sublayer and a Δx independent
        of its weights; (α⁴ + 4α²b² + 2(1 + d/m)b⁴)/(α² + b²)‖Δx‖², b = vw, for a signal that was
        sent back through it (d, m large); for attention with fixed scores (α² + κv²w²)‖Δx‖², κ from
        Σ_j s_j² (tokens moved independently) to 1 (moved together).""",
    seconds=3.0,
)


@CLAIM.stated("Δx independent of the sublayer's W and V, the true ReLU mask", PROVED)
def independent(lab: Lab) -> Finding:
    a, same = sp.Symbol("alpha", positive=True), []
    for f in (FeedForward(d, m) for d, m in SIZES):
        square = f.mean(squared(a * f.x + f.hidden(f.x) * f.V))  # of any row in x's place
        same.append(sp.expand(square - (a**2 + f.v**2 * f.w**2) * squared(f.x)) == 0)
    because = "the mask halves every direction's square exactly, along x and across"
    return lab.proved(all(same), because)


@judge
def stepped(lab: Lab, net: Net) -> Finding:
    """‖Δz‖² at the last feed-forward after an SGD step of all below, over its prediction."""
    ratios = {}
    for data in lab.texts():
        s = lab.small(seeds=lab.pick(16, 32), dtype="float64", width=64, data=data)
        trial = net.trial(lab.pick(3, 6), s)
        changes, group = directions(trial, "gradient", 1e-4)
        site, x, out = residual_sums(trial)[-1]
        for p, d in group:
            if (d.layer, d.sublayer) != (site.layer, site.sublayer):
                p.add_(changes[id(p)])
        _, x_moved, out_moved = residual_sums(trial)[-1]
        alpha = list(trial.model.residuals())[-1].alpha
        dx = x_moved - x
        dz = alpha * dx + out_moved - out
        weight = (out.square().sum(-1) / x.square().sum(-1)).flatten(1).mean(1)
        ratios[data] = lab.mean(norms(dz) ** 2 / norms(dx) ** 2 / (alpha**2 + weight))
    return lab.ratio(ratios, "‖Δz‖² over (α² + E‖FFN‖²/d)‖Δx‖²")


CLAIM.stated("Δx made by an SGD step of the layers below, DeepNorm's last feed-forward", SUPPORTED)(
    stepped(DEEPNORM)
)


@CLAIM.ours("it is a mean and no bound: draws lie above it", SUPPORTED)
def above(lab: Lab) -> Finding:
    what = "share of draws above their mean square"
    return lab.within(lab.mean(free(lab) > 1), MARGIN, 1 - MARGIN, what)


CLAIM.ours(
    "Δx made by an SGD step of the layers below, plain Post-LN's last feed-forward", REFUTED
)(stepped(PLAIN))


@CLAIM.correction(
    "Δx = gJᵀ, a signal sent back through the sublayer: (α⁴ + 4α²b² + 2(1 + d/m)b⁴), b = vw",
    SUPPORTED,
)
def sent_back(lab: Lab) -> Finding:
    g, d, m, b = lab.generator(3), 64, 256, 0.7
    W, V = masked(g, lab.pick(200, 800), d, m, b, 1.0)
    signal = lab.normal(g, len(W), 64, d)
    dx = signal + (signal @ V.mT) @ W.mT
    image = dx + (dx @ W) @ V
    law = 1 + 4 * b**2 + 2 * (1 + d / m) * b**4
    ratio = image.square().sum((-1, -2)) / signal.square().sum((-1, -2)) / law
    return lab.ratio(lab.mean(ratio), "drawn over the law at d = 64, m = 256, α = 1")


@CLAIM.ours("attention sublayers with fixed scores, tokens moved independently", REFUTED)
def attention(lab: Lab) -> Finding:
    found = {f"{n} tokens": lab.mean(a["independently"]) for n, a in attentions(lab).items()}
    return lab.ratio(found, "‖ΔG‖² over v²w²‖Δx‖²")


@CLAIM.correction(
    "attention with fixed scores: the share Σ s² of v²w²‖Δx‖² for independent moves, 1 for common",
    SUPPORTED,
)
def shares(lab: Lab) -> Finding:
    found = {}
    for n, a in attentions(lab).items():
        found[f"{n} tokens, independent, over Σ s²"] = lab.mean(a["independently"] / a["squares"])
        found[f"{n} tokens, common"] = lab.mean(a["together"])
    return lab.ratio(found, "‖ΔG‖² over v²w²‖Δx‖²")


@CLAIM.ours("attention as it is: the moving scores may be left out", REFUTED)
def moving_scores(lab: Lab) -> Finding:
    every = attentions(lab).items()
    found = {f"{n} tokens": lab.mean(a["real"] / a["independently"]) for n, a in every}
    return lab.ratio(found, "‖ΔG‖² as it is over the same with fixed scores, independent moves")


def masked(g: Any, draws: int, d: int, m: int, v: float, w: float) -> tuple[Tensor, Tensor]:
    """W with the mask of a drawn input put in, and V."""
    W, V = feed_forward(g, draws, d, m, v, w)
    return W * ((normalised(g, draws, 1, d) @ W) > 0), V


@once
def free(lab: Lab) -> Array:
    """‖ΔxJ‖² over (α² + v²w²)‖Δx‖² for a free Δx, of every draw."""
    g, a, v, w = lab.generator(3), 1.3, 0.9, 0.6
    W, V = masked(g, lab.pick(3000, 12000), 24, 48, v, w)
    dx = normalised(g, 1, 1, 24)
    image = a * dx + (dx @ W) @ V
    square = image.square().sum((-1, -2))
    return np.asarray(square / float(dx.square().sum() * (a * a + v * v * w * w)))


@once
def attentions(lab: Lab) -> dict[int, dict[str, Array]]:
    """‖ΔG‖² of one attention on independent tokens over v²w²‖Δx‖², v = w = 1, by their number.

    Tokens moved independently or together at fixed scores, and independently at the moving ones,
    which is "real"; and Σ s². Of each seed.
    """
    found = {}
    for tokens in lab.pick((16,), (4, 16, 64)):
        seeds = 2048 if tokens <= 16 else 1024
        s = lab.small(seeds=seeds, dtype="float64", width=32, data="gaussian:0", tokens=tokens)
        trial = PLAIN.trial(1, s)
        branch: Any = next(trial.model.residuals()).branch
        x, g = trial.inputs[0], lab.generator()
        weights = head_weights(branch, x)
        squares = {"squares": weights.square().sum(-1).reshape(seeds, -1).mean(1)}
        for way in ("independently", "together"):
            dx = moves(g, x, way)
            image = branch.output(averaged(branch, weights, branch.value(dx)))
            squares[way] = norms(image) ** 2 / norms(dx) ** 2
            if way == "independently":
                real = (branch(x + 1e-5 * dx) - branch(x - 1e-5 * dx)) / 2
                squares["real"] = norms(real) ** 2 / norms(1e-5 * dx) ** 2
        found[tokens] = {name: size.numpy() for name, size in squares.items()}
    return found
