"""R_k is Bernoulli(½) in all those moments."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

HALF, EVEN, MEAN, PAIRS, TOKENS, CORRECTED = (
    "P(R_k = 1) = ½ for every x ≠ 0, units independent of each other",
    "second moments of one token: z, ∂z/∂x Δx, ∂z/∂W ΔW, ∂z/∂V ΔV with independent Δ",
    "an independent coin would get the hidden layer's mean wrong",
    "and two hidden units with a fixed ΔV",
    "and two tokens",
    "true mask: mean w/√π, unit pairs w²/π, token pairs by the arc-cosine kernel",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Gaussian integrals with the true mask beside those with an independent one; draws."""
    import sympy as sp

    from paper_checks.shared.streams import generator, mean, torch
    from paper_checks.shared.verdicts import agrees, proved, text

    t, s = sp.symbols("t s", positive=True)
    density = sp.exp(-(t**2) / (2 * s**2)) / (s * sp.sqrt(2 * sp.pi))
    true = {p: sp.simplify(sp.integrate(t**p * density, (t, 0, sp.oo))) for p in (0, 1, 2, 4)}
    free = {
        p: sp.simplify(sp.integrate(t**p * density, (t, -sp.oo, sp.oo)) / 2) for p in (0, 1, 2, 4)
    }
    even = all(sp.simplify(true[p] - free[p]) == 0 for p in (0, 2, 4))
    # (W_k·Δx)² under the mask of x, Δx at any angle: an integral over half a plane
    a, b, q = sp.symbols("a b q", real=True)
    plane = sp.exp(-(t**2 + q**2) / 2) / (2 * sp.pi)
    change = sp.integrate(
        sp.integrate(sp.expand((a * t + b * q) ** 2) * plane, (q, -sp.oo, sp.oo)), (t, 0, sp.oo)
    )
    even &= sp.simplify(change - (a**2 + b**2) / 2) == 0

    # two tokens at the angle θ, in polar coordinates: both positive for φ in (θ − π/2, π/2)
    radius, phi, theta = sp.symbols("r phi theta", positive=True)
    wedge = sp.integrate(
        sp.expand_trig(sp.cos(phi) * sp.cos(phi - theta)), (phi, theta - sp.pi / 2, sp.pi / 2)
    )
    both = sp.integrate(radius**3 * sp.exp(-(radius**2) / 2), (radius, 0, sp.oo)) * wedge
    tokens = s**2 * both / (2 * sp.pi)
    length = sp.Symbol("w", positive=True)  # s² = 2w² for ‖x‖² = d
    stated = {
        "mean": (true[1], length / sp.sqrt(sp.pi)),
        "unit pairs": (true[1] ** 2, length**2 / sp.pi),
        "token pairs": (
            tokens,
            length**2 / sp.pi * (sp.sin(theta) + (sp.pi - theta) * sp.cos(theta)),
        ),
    }
    wrong = [
        name
        for name, (found, law) in stated.items()
        if sp.simplify(found.subs(s, sp.sqrt(2) * length) - law) != 0
    ]

    g = generator(context, 8)
    d, w, draws = 6, 0.7, context.pick(400_000, 4_000_000)
    spread = (2 * w**2 / d) ** 0.5
    x = torch.randn(d, generator=g, dtype=torch.float64)
    x = x * d**0.5 / x.norm()
    cosine = 0.5
    y = torch.randn(d, generator=g, dtype=torch.float64)
    y = y - (y @ x) / d * x
    y = cosine * x + (1 - cosine**2) ** 0.5 * y * d**0.5 / y.norm()
    pre = (
        torch.randn(draws, d, generator=g, dtype=torch.float64) * spread @ torch.stack([x, y, x], 1)
    )
    other = torch.randn(draws, generator=g, dtype=torch.float64) * spread * d**0.5
    hidden = torch.relu(pre)
    kernel = float(stated["token pairs"][0].subs({s: sp.sqrt(2) * w, theta: sp.acos(cosine)}))
    measured = {
        "second moment": mean(hidden[:, 0].square() / w**2),
        "change of the input": mean((pre[:, 0] > 0) * pre[:, 1].square() / w**2),
        "mean": mean(hidden[:, 0] / (w / torch.pi**0.5)),
        "unit pairs": mean(hidden[:, 0] * torch.relu(other) / (w**2 / torch.pi)),
        "token pairs": mean(hidden[:, 0] * hidden[:, 1] / kernel),
    }
    bernoulli_tokens = 0.25 * 2 * w**2 * cosine  # an own mask for each token
    return (
        proved(
            HALF,
            true[0] == sp.Rational(1, 2),
            "xW_k is a centred Gaussian for every x; different k have independent columns",
        ),
        proved(
            EVEN,
            bool(even)
            and agrees(measured["second moment"])
            and agrees(measured["change of the input"]),
            (
                "every even moment is halved exactly, since W → −W exchanges the mask; "
                f"drawn {text(measured['second moment'])} for x, "
                f"{text(measured['change of the input'])} for a Δx at 60° to it"
            ),
        ),
        proved(
            MEAN,
            sp.simplify(true[1] - free[1]) != 0,
            f"true {true[1]}, with an independent mask {free[1]}",
        ),
        proved(
            PAIRS,
            sp.simplify(true[1] ** 2 - free[1] ** 2) != 0,
            "E h_k h_k' is the squared mean, w²/π, not 0",
        ),
        proved(
            TOKENS,
            not (abs(kernel - bernoulli_tokens) < 1e-9),
            (
                f"E h(x)·h(y) at cosine ½: {kernel:.4f} true, {bernoulli_tokens:.4f} with "
                "independent masks; x and −x have complementary masks"
            ),
        ),
        proved(
            CORRECTED,
            bool(even) and not wrong and all(map(agrees, measured.values())),
            "by Gaussian integrals; drawn over predicted: "
            + ", ".join(f"{n} {text(v)}" for n, v in measured.items()),
            wrong=wrong,
        ),
    )


CLAIM = Claim(
    name="cake-relu-mask",
    source="Transformer layer cake (AI推公式), §5.1, the random variable R_k",
    statement=(
        "R_k = 1{(xW)_k > 0} is 1 or 0 with probability ½, and all moments of §5.1 are taken as "
        "if it were independent of W, V and x."
    ),
    conditions="W with independent centred Gaussian columns, any x ≠ 0",
    recorded=(
        Ruling(HALF, Verdict.PROVED),
        Ruling(EVEN, Verdict.PROVED),
        Ruling(MEAN, Verdict.PROVED),
        Ruling(PAIRS, Verdict.PROVED),
        Ruling(TOKENS, Verdict.PROVED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "R_k is a fair coin, but a function of W. Under W → −W the mask is exchanged for "
        "its complement while every even "
        "moment stays, so all second moments of §5.1 for one token and independent Δθ "
        "are exact, not approximate. What an "
        "independent coin gets wrong is odd or involves two of something: the hidden "
        "layer's mean is w/√π instead of 0, "
        "two units have correlation 1/π, and two tokens share masks according to the "
        "arc-cosine kernel, which is why "
        "ReLU layers pull tokens together."
    ),
    corrected=(
        "E h_k^{2p} = ½E(xW_k)^{2p} exactly; E h_k = w/√π; E h_k h_k' = w²/π; E h_k(x)h_k(y) "
        "= (w²/π)(sin θ + (π − θ)cos θ)."
    ),
    check=check,
    seconds=2.0,
)
