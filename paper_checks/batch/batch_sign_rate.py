from paper_checks.shared.batch import SU, mean_sign, normal
from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp
from paper_checks.shared.engine import across_batch
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-sign-rate",
    source=f"{SU.format(11280, '2025-09-10')}, 'Calculation', 'The anomaly' and 'Why'",
    statement="""SignSGD gains most at η* ∝ √B in small batches. If Σ_{i≠j} H_ij sign(g_i g_j) > 0
        is large enough, η* first rises and then falls with B (surge), from β* = (Σ H_ii/Σ_{i≠j}
        H_ij sign(g_i g_j))^{1/2} on, where β = (1 + B_simple/B)^{−1/2}. With H = diag|g|/η_max
        it is η_max/√(1 + B_simple/B), without a surge.""",
    conditions="""normal noise, the exact mean of the sign; equal entries with a curvature of
        identity and one shared direction for the surge; normal and equal gradient entries for
        the form""",
    finding="""The root and the surge are right: with the exact mean of the sign the best rate has
        its maximum inside, at a mean sign within 5 % of β*. The form η_max/√(1 + B_simple/B) is
        better than its derivation: where the gradient's entries are normal, as the noise is, it
        is exact, since a gradient's mean given the batch's is linear in it. Where all entries
        are alike it is off by up to a fifth.""",
    counterexample="""Equal entries at B = B_simple/100: the best rate is 0.8 of the formula's.""",
    corrected="""η* = Σ|g_i| erf(|g_i|√(B/2)/σ_i)/Σ H_ii for diagonal H: η_max/√(1 + B_simple/B)
        for normal entries, and between 0.8 and 1.07 of it for equal ones.""",
    seconds=4,
)


@CLAIM.stated("in small batches η* ∝ √B", PROVED)
def root(lab: Lab) -> Finding:
    batch, g, sigma = sp.symbols("B g sigma", positive=True)
    rate = sp.erf(g * sp.sqrt(batch) / (sigma * sp.sqrt(2)))
    limit = sp.limit(rate / sp.sqrt(batch), batch, 0)
    return lab.proved(limit.is_positive and limit.is_finite, f"η*/√B tends to {limit}")


@CLAIM.ours("as the package derives for Adam and for a sign", PROVED)
def derived(lab: Lab) -> Finding:
    found = {row["rate"] for name in ("adam", "signsgd") for row in across_batch(name)}
    return lab.proved(found == {"B**(1/2)"}, f"the rates are {sorted(found)}")


@CLAIM.stated("with off-diagonal curvature it rises, then falls", SUPPORTED)
def surge(lab: Lab) -> Finding:
    rates, _ = shared_direction()
    top = int(rates.argmax())
    return lab.seen(
        bool(0 < top < len(rates) - 1 and rates[top] > 1.1 * rates[-1]),
        f"the highest best rate is {rates[top] / rates[-1]:.2f} times that of B → ∞",
    )


@CLAIM.stated("its maximum is at a mean sign of β*, within 5 %", SUPPORTED)
def place(lab: Lab) -> Finding:
    rates, signs = shared_direction()
    found = signs[rates.argmax()] / np.sqrt(DIAGONAL / OFF)
    return lab.seen(bool(abs(found - 1) < 0.05), f"mean sign over β*: {found:.3f}")


@CLAIM.stated("with H = diag|g|/η_max there is no surge", PROVED)
def newton(lab: Lab) -> Finding:
    batch, g, sigma = sp.symbols("B g sigma", positive=True)
    rate = sp.erf(g * sp.sqrt(batch) / (sigma * sp.sqrt(2)))  # its mean sign; Σ|g| cancels
    return lab.proved(bool(sp.diff(rate, batch).is_positive), "each entry's part rises with B")


@CLAIM.stated("there η* = η_max/√(1 + B_simple/B), for normal gradient entries", PROVED)
def normal_entries(lab: Lab) -> Finding:
    g, s = sp.symbols("g s", positive=True)  # s = B_simple/B, the noise's variance over g's
    # E|g| erf(|g|/√(2s)) over a standard normal g, integrated, over its limit s → 0
    density = 2 * sp.exp(-(g**2) / 2) / sp.sqrt(2 * sp.pi)
    mean = sp.integrate(g * sp.erf(g / sp.sqrt(2 * s)) * density, (g, 0, sp.oo))
    left = sp.simplify(mean / sp.integrate(g * density, (g, 0, sp.oo)) * sp.sqrt(1 + s) - 1)
    off = float(np.abs(shape(drawn(lab)) - 1).max())
    return lab.proved(left == 0, "the mean, integrated", largest_distance_of_4096_draws=off)


@CLAIM.stated("there η* = η_max/√(1 + B_simple/B), for equal entries, within 5 %", REFUTED)
def form(lab: Lab) -> Finding:
    found = shape(np.ones(1))
    what = f"over the formula {found.min():.2f} to {found.max():.2f}, 1/100 to 100 B_simple"
    return lab.seen(bool(np.abs(found - 1).max() < 0.05), what)


@CLAIM.correction("equal entries: it is between √(2/π) and 1.07 times that", SUPPORTED)
def between(lab: Lab) -> Finding:
    found = shape(np.ones(1))
    holds = found.min() > np.sqrt(2 / np.pi) - 1e-3 and found.max() < 1.09
    return lab.seen(bool(holds), f"{found.min():.3f} to {found.max():.3f}")


COUNT, SHARED = 32, 0.2  # H = I + 0.2 ssᵀ, s the signs of the gradient
DIAGONAL, OFF = COUNT * (1 + SHARED), SHARED * COUNT * (COUNT - 1)


def shared_direction() -> tuple[Array, Array]:
    """The best rates over B, up to a constant, and the mean signs there."""
    signs = mean_sign(np.sqrt(np.logspace(-3, 3, 2001)))
    return COUNT * signs / (DIAGONAL + signs**2 * OFF), signs


def drawn(lab: Lab) -> Array:
    return normal(lab.seed, 4096)


def shape(g: Array) -> Array:
    """η*/η_max over the formula at noise of equal size, B from 1/100 to 100 B_simple."""
    simple = len(g) / (g * g).sum()
    size = simple * np.logspace(-2, 2, 41)
    exact = (np.abs(g) * mean_sign(np.abs(g) * np.sqrt(size)[:, None])).sum(1) / np.abs(g).sum()
    return np.asarray(exact * np.sqrt(1 + simple / size))
