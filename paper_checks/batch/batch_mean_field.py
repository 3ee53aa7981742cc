from paper_checks.shared.batch import SU, mean_sign
from paper_checks.shared.bench import Claim, Finding, Lab, np, sp
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-mean-field",
    source=f"{SU.format(11280, '2025-09-10')}, 'The method' and 'Why it works'",
    statement="""E sign(g̃_B) ≈ g/√(g² + σ²/B) by taking the mean inside. It differs from the
        lengthy result by a constant π/2 alone, needs no assumption on the distribution, and its
        error is likely bounded and tends to 0 at both ends; the first correction is at most
        2/3^{3/2}.""",
    conditions="normal noise, g/σ from 0 to 8; noise of two values for the distribution",
    finding="""For normal noise the approximation is good to 0.065 at every signal, better than
        with the constant π/2 (0.108), which is right at small signals alone: there the mean
        field is too large by √(π/2), a quarter. It does depend on the distribution: under noise
        of two equal values ±σ the mean of the sign is exactly 0 up to g = σ, where the mean
        field says 0.71.""",
    counterexample="""Noise ±σ with equal chances and g < σ: E sign = 0, the mean field g/√(g² +
        σ²).""",
    corrected="""For normal noise |E sign − g/√(g² + σ²/B)| < 0.07; noise without density near −g
        can end in any value.""",
    seconds=3,
)
SIGNAL = "of g√B/σ from 0 to 8"


@CLAIM.stated("at small signals it differs by the π/2 of x/√(x² + π/2) alone", PROVED)
def small(lab: Lab) -> Finding:
    x = sp.Symbol("x", positive=True)
    exact, fitted = sp.erf(x / sp.sqrt(2)), x / sp.sqrt(x**2 + sp.pi / 2)
    mean_field = x / sp.sqrt(1 + x**2)
    limits = [sp.limit(exact / one, x, 0) for one in (fitted, mean_field)]
    return lab.proved(limits == [1, sp.sqrt(2 / sp.pi)], f"quotients {limits}")


@CLAIM.stated("for normal noise the error is bounded, and 0 at both ends", SUPPORTED)
def bounded(lab: Lab) -> Finding:
    x = np.linspace(0, 8, 4001)
    off = np.abs(mean_sign(x) - x / np.sqrt(1 + x * x))
    holds = off.max() < 0.07 and off[0] < 1e-3 and off[-1] < 1e-2
    return lab.seen(bool(holds), f"at most {off.max():.3f}, {SIGNAL}; {off[-1]:.3f} at 8")


@CLAIM.ours("the constant π/2 makes it better everywhere", REFUTED)
def everywhere(lab: Lab) -> Finding:
    x = np.linspace(0.01, 8, 4001)
    plain, fitted = (np.abs(mean_sign(x) - x / np.sqrt(c + x * x)).max() for c in (1, np.pi / 2))
    return lab.seen(
        bool(fitted < plain), f"largest error {fitted:.3f} with it, {plain:.3f} without"
    )


@CLAIM.stated("the second term is at most 2/3^{3/2}, at σ²/μ² = 2", PROVED)
def second(lab: Lab) -> Finding:
    t = sp.Symbol("t", positive=True)  # σ²/μ²
    mu = sp.Integer(1)
    third = mu**3 + 3 * mu * t  # E x³ of a normal x
    term = sp.simplify((third - (mu**3 + mu * t)) / (2 * (mu**2 + t) ** sp.Rational(3, 2)))
    at = sp.solve(sp.diff(term, t), t)
    return lab.proved(
        at == [2] and sp.simplify(term.subs(t, 2) - 2 / sp.sqrt(27)) == 0,
        f"{term}, largest at {at}",
    )


@CLAIM.stated("it needs no assumption on the form of the distribution", REFUTED)
def any_noise(lab: Lab) -> Finding:
    g = np.linspace(0.1, 0.9, 9)  # of σ
    exact = (np.sign(g + 1) + np.sign(g - 1)) / 2
    off = np.abs(exact - g / np.sqrt(1 + g * g)).max()
    return lab.seen(
        bool(off < 0.07), f"noise ±σ: the mean sign is {exact.max():g}, off by {off:.2f}"
    )


@CLAIM.correction("noise ±σ leaves a mean sign of 0 below σ, and 1 above", PROVED)
def two_values(lab: Lab) -> Finding:
    g = sp.Symbol("g", positive=True)
    mean = (sp.sign(g + 1) + sp.sign(g - 1)) / 2
    found = mean.subs(g, sp.Rational(9, 10)), mean.subs(g, sp.Rational(11, 10))
    return lab.proved(found == (0, 1), "g of 0.9 and of 1.1 σ")
