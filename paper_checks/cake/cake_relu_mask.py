import math

from paper_checks.shared.bench import Claim, Expr, Finding, Lab, sp, torch
from paper_checks.shared.engine import gaussian_moment, holds, value
from paper_checks.shared.record import CAKE, PROVED, SUPPORTED

CLAIM = Claim(
    name="cake-relu-mask",
    source=f"{CAKE}, §5.1, the random variable R_k",
    statement="""R_k = 1{(xW)_k > 0} is 1 or 0 with probability ½, and all moments of §5.1 are taken
        as if it were independent of W, V and x.""",
    conditions="W with independent centred Gaussian columns, any x ≠ 0",
    finding="""R_k is a fair coin, but a function of W. Under W → −W the mask is exchanged for its
        complement while every even moment stays, so all second moments of §5.1 for one token and
        independent Δθ are exact, not approximate. What an independent coin gets wrong is odd or
        involves two of something: the hidden layer's mean is w/√π instead of 0, two units have
        correlation 1/π, and two tokens share masks according to the arc-cosine kernel, which is why
        ReLU layers pull tokens together.""",
    corrected="""E h_k^{2p} = ½E(xW_k)^{2p} exactly; E h_k = w/√π; E h_k h_k' = w²/π; E h_k(x)h_k(y)
        = (w²/π)(sin θ + (π − θ)cos θ).""",
)


@CLAIM.stated("P(R_k = 1) = ½ for every x ≠ 0, units independent of each other", PROVED)
def half(lab: Lab) -> Finding:
    because = "xW_k is a centred Gaussian for every x; different k have independent columns"
    return lab.proved(masked(0) == sp.Rational(1, 2), because)


@CLAIM.stated(
    "second moments of one token: z, ∂z/∂x Δx, ∂z/∂W ΔW, ∂z/∂V ΔV with independent Δ", PROVED
)
def even(lab: Lab) -> Finding:
    halved = all(masked(p) == unmasked(p) / 2 for p in (2, 4))
    steps = ("norm", "input-term", "first-matrix", "second-matrix")
    because = "every even moment is halved exactly, since W → −W exchanges the mask"
    return lab.proved(halved and holds("moments", *(f"ffn-mask-{name}" for name in steps)), because)


@CLAIM.ours("an independent coin would get the hidden layer's mean wrong", PROVED)
def odd(lab: Lab) -> Finding:
    coin = unmasked(1) / 2
    return lab.proved(masked(1) != coin, f"true {masked(1)}, with an independent mask {coin}")


@CLAIM.ours("and two hidden units with a fixed ΔV", PROVED)
def pairs(lab: Lab) -> Finding:
    apart = masked(1) ** 2 != (unmasked(1) / 2) ** 2
    return lab.proved(apart, "E h_k h_k' is the squared mean, w²/π, not 0")


@CLAIM.ours("and two tokens", PROVED)
def tokens(lab: Lab) -> Finding:
    true, coin = kernel(sp.pi), -(sp.Symbol("w", positive=True) ** 2) / 2
    what = "x and −x have complementary masks: E h(x)·h(−x) is"
    return lab.proved(true == 0 and true != coin, f"{what} {true}, with an own mask each {coin}")


@CLAIM.correction(
    "true mask: mean w/√π, unit pairs w²/π, token pairs by the arc-cosine kernel", PROVED
)
def laws(lab: Lab) -> Finding:
    w, theta = sp.symbols("w theta", positive=True)
    arc_cosine = w**2 / sp.pi * (sp.sin(theta) + (sp.pi - theta) * sp.cos(theta))
    return lab.proved(
        masked(1) == w / sp.sqrt(sp.pi)
        and sp.simplify(kernel(theta) - arc_cosine) == 0
        and kernel(0) == w**2
        and holds("moments", "mask-moment-1", "mask-two-tokens", "mask-orthogonal-tokens"),
        "by Gaussian integrals; the kernel by the engine, and E h² = w² at equal tokens",
    )


@CLAIM.ours("drawn hidden units agree with all of them", SUPPORTED)
def drawn(lab: Lab) -> Finding:
    g, d, w, draws = lab.generator(8), 6, 0.7, lab.pick(400_000, 4_000_000)
    x, y = torch.linalg.qr(lab.normal(g, d, 2)).Q.mT * d**0.5
    cosine = 0.5
    y = cosine * x + (1 - cosine**2) ** 0.5 * y
    W = (2 * w**2 / d) ** 0.5 * lab.normal(g, draws, d)
    at_x, at_y = (W @ torch.stack([x, y], dim=1)).unbind(1)
    hidden, other = torch.relu(at_x), 2**0.5 * w * lab.normal(g, draws)
    both = float(kernel(sp.acos(cosine)).subs(sp.Symbol("w", positive=True), w))
    ratios = {
        "second moment": hidden.square() / w**2,
        "change of the input": (at_x > 0) * at_y.square() / w**2,
        "mean": hidden / (w / math.pi**0.5),
        "unit pairs": hidden * torch.relu(other) / (w**2 / math.pi),
        "token pairs": hidden * torch.relu(at_y) / both,
    }
    return lab.ratio({n: lab.mean(ratio) for n, ratio in ratios.items()}, "drawn over predicted")


def masked(p: int) -> Expr:
    """E h^p under the true mask, (xW)_k centred of variance 2w² as ‖x‖² = d."""
    return sp.simplify((sp.sqrt(2) * sp.Symbol("w", positive=True)) ** p * gaussian_moment(p))


def unmasked(p: int) -> Expr:
    """E (xW)_k^p."""
    w = sp.Symbol("w", positive=True)
    return sp.simplify((sp.sqrt(2) * w) ** p * gaussian_moment(p, -sp.oo))


def kernel(angle: Expr | int) -> Expr:
    """E h(x)h(y) of two tokens at an angle, by the engine."""
    w, s, theta = sp.symbols("w s theta", positive=True)
    return sp.simplify(value("moments", "mask-two-tokens").subs({s: sp.sqrt(2) * w, theta: angle}))
