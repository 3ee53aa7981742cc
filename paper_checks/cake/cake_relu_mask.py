from paper_checks.shared.bench import Claim, Expr, Finding, Lab, sp
from paper_checks.shared.engine import gaussian_moment
from paper_checks.shared.record import CAKE, PROVED

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
    because = "every even moment is halved exactly, since W → −W exchanges the mask"
    return lab.proved(halved, because)


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
        and kernel(0) == w**2,
        "by Gaussian integrals, the kernel's in polar coordinates; E h² = w² at equal tokens",
    )


def masked(p: int) -> Expr:
    """E h^p under the true mask, (xW)_k centred of variance 2w² as ‖x‖² = d."""
    return sp.simplify((sp.sqrt(2) * sp.Symbol("w", positive=True)) ** p * gaussian_moment(p))


def unmasked(p: int) -> Expr:
    """E (xW)_k^p."""
    w = sp.Symbol("w", positive=True)
    return sp.simplify((sp.sqrt(2) * w) ** p * gaussian_moment(p, -sp.oo))


def kernel(angle: Expr | int) -> Expr:
    """E h(x)h(y) of two tokens at an angle: both are active on an arc of π less the angle."""
    w, turn, length = sp.symbols("w phi r", positive=True)
    radial = sp.integrate(length**3 * sp.exp(-(length**2) / 2), (length, 0, sp.oo)) / (2 * sp.pi)
    arc = (turn, angle - sp.pi / 2, sp.pi / 2)
    return sp.simplify(2 * w**2 * radial * sp.integrate(sp.cos(turn) * sp.cos(turn - angle), arc))
