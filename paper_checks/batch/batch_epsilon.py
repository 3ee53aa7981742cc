from paper_checks.shared.batch import SU, normal
from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-epsilon",
    source=f"{SU.format(10563, '2024-11-18')}, 'First results'; {SU.format(11280, '2025-09-10')}",
    statement="""With softsign(g) = g/√(g² + ε²) in place of the sign, the result lies between SGD
        and SignSGD: the surge becomes rarer with ε and is gone as ε → ∞, where η*/ε is SGD's
        with a covariance of (πσ²/2B) I. The mean is softsign(g)/√(1 + σ²/(g² + ε²)/B).""",
    conditions="""algebra; 200,000 normal draws of one entry, ε of 1/100 to 100 times σ""",
    finding="""The picture is right, the last constant is not: as ε → ∞ the update is g/ε itself,
        whose noise is σ²/B and not π/2 times that. The π/2 of the small-ε end is carried into
        the other, as the approximation of the second moment is made for the sign. A large ε in
        Adam turns √B into B: which of the two applies depends on ε over |g|.""",
    counterexample="ε = 100σ, g = 0: ε² E softsign² is σ², the source's limit (π/2)σ².",
    corrected="As ε → ∞, η*/ε tends to SGD's rate at the covariance σ²/B that the gradient has.",
    seconds=3,
)


@CLAIM.stated("the mean-field mean is softsign(g)/√(1 + σ²/(g² + ε²)/B)", PROVED)
def identity(lab: Lab) -> Finding:
    g, sigma, epsilon, batch = sp.symbols("g sigma epsilon B", positive=True)
    left = g / sp.sqrt(g**2 + sigma**2 / batch + epsilon**2)
    soft = g / sp.sqrt(g**2 + epsilon**2)
    right = soft / sp.sqrt(1 + sigma**2 / (g**2 + epsilon**2) / batch)
    return lab.proved(sp.simplify(left / right) == 1, "one fraction")


@CLAIM.stated("the condition for a surge is harder to meet with ε, and fails as ε → ∞", PROVED)
def surge(lab: Lab) -> Finding:
    g, epsilon = sp.symbols("g epsilon", positive=True)
    soft = g / sp.sqrt(g**2 + epsilon**2)
    slope = sp.simplify(sp.diff(soft, epsilon))
    limit = sp.limit(soft, epsilon, sp.oo)
    return lab.proved(bool(slope.is_negative) and limit == 0, f"softsign falls in ε, to {limit}")


@CLAIM.stated("as ε → ∞ the update is SGD's", PROVED)
def sgd(lab: Lab) -> Finding:
    g, epsilon = sp.symbols("g epsilon", positive=True)
    limit = sp.limit(epsilon * g / sp.sqrt(g**2 + epsilon**2), epsilon, sp.oo)
    return lab.proved(limit == g, f"ε softsign(g) tends to {limit}")


@CLAIM.stated("and its noise counts as (π/2)σ²/B, within 5 %", REFUTED)
def constant(lab: Lab) -> Finding:
    return lab.ratio(lab.mean(second(lab) / (np.pi / 2)), "ε² E softsign² over (π/2)σ²")


@CLAIM.correction("it counts as σ²/B", SUPPORTED)
def plain(lab: Lab) -> Finding:
    return lab.ratio(lab.mean(second(lab)), "ε² E softsign² over σ²")


@CLAIM.ours("the best rate goes as √B where ε ≪ σ/√B, and as B where ε ≫ it", SUPPORTED)
def powers(lab: Lab) -> Finding:
    x = np.linspace(-8, 8, 40001)  # the noise of one entry, in units of σ
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    found = {}
    for epsilon in (1e-3, 1e3):
        rates = []
        for size in (1.0, 1.01):
            spread = x / np.sqrt(size)
            root = np.sqrt(spread**2 + epsilon**2)
            response, square = epsilon**2 / root**3, (spread / root) ** 2
            rates.append((response * density).sum() / (square * density).sum())
        found[epsilon] = float(np.log(rates[1] / rates[0]) / np.log(1.01))
    holds = abs(found[1e-3] - 0.5) < 0.02 and abs(found[1e3] - 1) < 0.02
    return lab.seen(holds, f"powers of B, integrated on a grid: {found}")


def second(lab: Lab) -> Array:
    """ε² E softsign² over σ² at ε = 100σ and g = 0, by groups of draws: (8,)."""
    x = normal(lab.seed, 8, 25_000)
    return np.asarray((1e4 * x * x / (x * x + 1e4)).mean(1))
