import math

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Settings, np, numeric, sp, torch
from paper_checks.shared.record import CAKE, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, PLAIN, Net, norms

CLAIM = Claim(
    name="cake-loss-gradient",
    source=f"{CAKE}, §4.3, inline formula after the first displayed equation",
    statement=(
        "‖∂L/∂F‖ is bounded and in general independent of the model's parameters and of N: O(1)."
    ),
    conditions="""softmax cross-entropy through a head of gain g; one token's loss; built encoders
        of 4 to 128 layers, widths 16 to 128""",
    finding="""In depth, and in the gain of the stack's own matrices, it holds as well as anything
        can be measured: exponent 0.00 for DeepNorm and plain Post-LN alike, because the final norm
        fixes F's length. What it depends on is the head behind F, whose bound is √2‖W_head‖₂ for
        one token's loss: the gradient is proportional to the head's gain up to Xavier's, 22 times
        as large at 16 times that gain, where the softmax has concentrated, and grows with the width
        as √(d/(d + V)). The O(1) is a constant set by the head.""",
    counterexample="Two classes, head W = (g, −g), F = 0: ∂L/∂F = ±g, as large as g is.",
    corrected="""‖∂L/∂F_p‖ ≤ √2‖W_head‖₂ for one token's loss (over n for the mean over n tokens):
        bounded in depth, proportional to the head's gain.""",
)


@CLAIM.stated("in depth, DeepNorm and plain Post-LN", SUPPORTED)
def in_depth(lab: Lab) -> Finding:
    at = lab.pick((4, 8, 16, 32), (8, 16, 32, 64, 128))
    slopes = {}
    for data in lab.texts():
        for name, net in (("DeepNorm", DEEPNORM), ("plain", PLAIN)):
            sizes = (gradient(net, n, lab.small(data=data)) for n in at)
            slopes[f"{name}, {data}"] = lab.power(at, lab.columns(sizes))
    return lab.exponent(slopes, 0.0, (("one per layer", 0.5),), what="exponent in N")


@CLAIM.stated("whatever the gain of the stack's own matrices", SUPPORTED)
def in_the_gain(lab: Lab) -> Finding:
    gains = (0.1, 1.0, 10.0)
    slopes = {}
    for data in lab.texts():
        sizes = (gradient(Net(beta=str(gain)), 4, lab.small(data=data)) for gain in gains)
        slopes[data] = lab.power(gains, lab.columns(sizes))
    return lab.exponent(slopes, 0.0, what="exponent in the gain, α = 1, gains 0.1 to 10")


@CLAIM.stated("a softmax cross-entropy has ‖∂L/∂F_p‖ ≤ √2‖W_head‖₂ for one token's loss", PROVED)
def bounded(lab: Lab) -> Finding:
    # ‖p − e_y‖² = (1 − p_y)² + Σ_{i≠y} p_i², with p_y = u and the others' sum 1 − u
    p, u = sp.symbols("p_1:4", nonnegative=True), sp.Symbol("u", nonnegative=True)
    slack = sp.expand(2 * (sum(p) + u) ** 2 - sum(p) ** 2 - sum(e**2 for e in p))
    because = "2(Σp)² − ‖p − e_y‖² is a sum of positive terms, and ∂L/∂F = (p − e_y)ᵀW_head"
    return lab.proved(all(c > 0 for c in sp.Poly(slack, *p, u).coeffs()), because)


@CLAIM.ours("heads of gain 0.1 to 100 keep within that bound", SUPPORTED)
def drawn(lab: Lab) -> Finding:
    g, shares = lab.generator(), []
    for gain in (0.1, 1.0, 10.0, 100.0):
        W, F = gain * lab.normal(g, 200, 5, 8), lab.normal(g, 200, 8).requires_grad_()
        y = torch.randint(5, (200,), generator=g)
        logits = (W @ F[..., None])[..., 0]
        loss = torch.nn.functional.cross_entropy(logits, y, reduction="sum")
        (found,) = torch.autograd.grad(loss, F)
        shares.append(found.norm(dim=1) / (2**0.5 * torch.linalg.matrix_norm(W, 2)))
    largest = float(torch.stack(shares).max())
    return lab.seen(largest <= 1, f"by autograd at most {largest:.3f} of the bound")


@CLAIM.ours("whatever the parameters: also those of the head", REFUTED)
def in_the_head(lab: Lab) -> Finding:
    small, large = (gradient(DEEPNORM, 4, lab.small(), head) for head in (1.0, 16.0))
    times = lab.mean(large / small)
    return lab.ratio(times, "a head of 16 times the size: gradient over that of a Xavier head")


@CLAIM.correction(
    "in width, at a fixed vocabulary, it scales as √(d/(d + V)), d the width and V the vocabulary",
    SUPPORTED,
)
def in_width(lab: Lab) -> Finding:
    widths = lab.widths()
    sizes = lab.columns(gradient(DEEPNORM, 4, lab.small(width=d, seeds=32)) for d in widths)
    law = np.sqrt(np.array(widths) / (np.array(widths) + numeric.VOCAB))
    slope = lab.slope(widths, law)
    found = lab.power(widths, sizes / law)
    rivals = (("independent of the width", -slope), ("√d", 0.5 - slope))
    what = "exponent in width of the gradient over √(d/(d + V))"
    return lab.exponent(found, 0.0, rivals, what=what, alone=lab.power(widths, sizes).estimate)


@CLAIM.correction(
    "per token it is the head's gain times a function of width, exponent 1 in the gain", SUPPORTED
)
def in_the_heads_gain(lab: Lab) -> Finding:
    gains = (0.25, 0.5, 1.0)
    sizes = lab.columns(gradient(DEEPNORM, 4, lab.small(), head) for head in gains)
    found, rivals = lab.power(gains, sizes), (("none", 0.0),)
    return lab.exponent(found, 1.0, rivals, what="exponent in the head's gain, up to Xavier's")


def gradient(net: Net, layers: int, s: Settings, head: float = 1.0) -> Array:
    """‖∂L_p/∂F_p‖, the root of its mean square over tokens, with the head scaled: (seeds,)."""
    trial = net.trial(layers, s)
    trial.model.head.weight.mul_(head)
    output = trial.output().requires_grad_()
    (found,) = torch.autograd.grad(trial.loss(output).sum(), output)
    return np.asarray(norms(found).double() * math.sqrt(output[0, ..., 0].numel()))
