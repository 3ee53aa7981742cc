from paper_checks.shared.batch import SU, erf, mean_sign, normal
from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-gain",
    source=f"{SU.format(11280, '2025-09-10')}, 'The change of the loss' and 'The general law'",
    statement="""At its best rate SignSGD gains ΔL_max/(1 + B_noise/B), the form of SGD: always
        more with a larger batch, even where the rate surges. The form is general: for φ = Ĥ⁻¹g̃
        the gain is homogeneous of degree 0 in Ĥ, so that Ĥ's dependence on B cancels.""",
    conditions="""algebra under the mean-field moments; the exact moments of sign(g) and g|g| under
        normal noise, equal entries, diagonal curvature, B from 1/100 to 100 times the noise
        scale; 32 normal gradients of 40 × 40 for polar and g|g|""",
    finding="""Under the mean-field moments the form follows, and the gain never falls with B: that
        much is right for the exact moments as well. The general law is more than the mean
        field: it is exact for every homogeneous update whose gradient has entries normal like
        the noise, whatever its degree p, and the best rate then goes as (1 +
        B_simple/B)^{−(1+p)/2}, between which the powers 1/2 of a sign and 1 of SGD lie. For
        other gradients it is a law of both ends: with equal entries the gains of sign(g) and of
        g|g| are off by up to 28 % between.""",
    counterexample="""Equal entries, g|g| under normal noise: the gain is 28 % off 1/(1 + b/B) near
        B = b.""",
    corrected="""For a gradient normal like its noise the gain is ΔL_max/(1 + B_simple/B) exactly.
        For equal entries it is so within 30 %, with both ends right.""",
    seconds=3,
)


@CLAIM.stated("under the mean-field moments a sign gains ΔL_max/(1 + B_noise/B)", PROVED)
def mean_field(lab: Lab) -> Finding:
    batch, simple, own, off, total = sp.symbols("B B_simple h o g", positive=True)
    beta = 1 / sp.sqrt(1 + simple / batch)
    gain = (beta * total) ** 2 / (2 * (own + beta**2 * off))
    scale = simple * own / (own + off)
    form = total**2 / (2 * (own + off)) / (1 + scale / batch)
    return lab.proved(sp.simplify(gain - form) == 0, f"B_noise = {scale}")


@CLAIM.stated("it always rises with B, even where the rate surges", PROVED)
def rises(lab: Lab) -> Finding:
    mean, own, off = sp.symbols("m h o", positive=True)  # m the exact mean sign, rising in B
    slope = sp.simplify(sp.diff(mean**2 / (own + mean**2 * off), mean))
    return lab.proved(bool(slope.is_positive), f"its slope in the mean sign is {slope}")


@CLAIM.stated("the form is general: sign(g) and g|g| of equal entries have it, within 5 %", REFUTED)
def general(lab: Lab) -> Finding:
    found = {name: float(abs(values - 1).max()) for name, values in over_form().items()}
    return lab.seen(max(found.values()) < 0.05, f"largest distance from the form: {listed(found)}")


@CLAIM.correction("their gains are within 30 %, with both ends right", SUPPORTED)
def thirty(lab: Lab) -> Finding:
    found = over_form()
    off = {name: float(abs(values - 1).max()) for name, values in found.items()}
    ends = max(abs(values[[0, -1]] - 1).max() for values in found.values())
    return lab.seen(max(off.values()) < 0.3 and ends < 0.03, f"{listed(off)}; ends {ends:.3f}")


@CLAIM.correction("for entries normal like the noise it is exact, for every degree p", PROVED)
def exact(lab: Lab) -> Finding:
    s, p, c, k = sp.symbols("s p c k", positive=True)  # s = B_simple/B; y = g + z of variance 1 + s
    # normal g − y/(1 + s) and y are independent where they are uncorrelated: E[g | y] = y/(1 + s)
    g, z = sp.symbols("g z", real=True)
    product = sp.expand((g - (g + z) / (1 + s)) * (g + z))
    apart = sp.simplify(product.subs({g * z: 0}).subs({g**2: 1, z**2: s}))
    # U of degree p: E⟨U(y), g⟩ = E⟨U(y), y⟩/(1 + s) = c (1 + s)^{(p+1)/2 − 1}
    along, square = c * (1 + s) ** ((p + 1) / 2 - 1), k * (1 + s) ** p
    gain, rate = sp.powsimp(along**2 / square), sp.powsimp(along / square)
    holds = apart == 0 and sp.simplify(gain * (1 + s) * k / c**2) == 1
    return lab.proved(bool(holds), f"gain ∝ 1/(1 + s), best rate ∝ {rate * k / c}")


@CLAIM.ours("there the best rate goes as (1 + B_simple/B)^{−(1+p)/2}, within 5 %", SUPPORTED)
def rates(lab: Lab) -> Finding:
    found = {}
    for name, p in (("polar", 0), ("g|g|", 2)):
        g, z = normal(lab.seed, 32, 40, 40), normal(lab.seed + 1, 32, 40, 40)
        ends = []
        for s in (0.0, 9.0):
            pairs = []
            for y in (g + s**0.5 * z, g - s**0.5 * z):
                u = polar(y) if p == 0 else y * np.abs(y)
                pairs.append(((u * g).sum((1, 2)), (u * u).sum((1, 2))))
            along, square = np.mean(pairs, axis=0)
            ends.append(along / square)
        found[name] = lab.mean(ends[1] / ends[0] * 10 ** ((1 + p) / 2))
    return lab.ratio(found, "at B_simple/9 over the formula")


def polar(y: Array) -> Array:
    u, _, v = np.linalg.svd(y, full_matrices=False)
    return np.asarray(u @ v)


def over_form() -> dict[str, Array]:
    """The exact gain over 1/(1 + b/B) with b from the small-batch end, over four decades."""
    x = np.logspace(-2, 2, 161)  # g√B/σ
    squared = (x * x + 1) * erf(x / np.sqrt(2)) + x * np.sqrt(2 / np.pi) * np.exp(-x * x / 2)
    gains = {"sign": mean_sign(x) ** 2, "g|g|": squared**2 / (x**4 + 6 * x * x + 3)}
    return {name: gain * (1 + (1 / gain[0] - 1) * (x[0] / x) ** 2) for name, gain in gains.items()}


def listed(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {off:.2f}" for name, off in found.items())
