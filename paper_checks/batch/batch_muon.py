from paper_checks.shared.batch import SU, normal
from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp
from paper_checks.shared.engine import across_batch
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-muon",
    source=f"{SU.format(11285, '2025-09-15')}, 'Means' and 'The same law'",
    statement="""E G̃ᵀG̃ = GᵀG + (nσ²/B) I. With HX = X(GᵀG)^{1/2}/η_max Muon gains most at η* ≈
        η_max/√(1 + B_simple/B), with B_simple = mnσ²/tr(GᵀG) = mnσ²/‖G‖_F: the law of SignSGD.""",
    conditions="""a 3 × 2 matrix in symbols; the polar factor of G + ξ/√B of 48 × 48 matrices, G
        with the noise's spectrum, orthogonal, and of rank one, B from 1/30 to 30 times
        B_simple, 16 draws""",
    finding="""The root is right. The whole curve is exact for a gradient whose entries are normal
        like the noise, as for every homogeneous update (batch-gain). It is not for others: for
        one of rank one the best rate is three times the formula's and more at a thirtieth of
        B_simple, because a single direction stands out of the noise at a batch smaller by about
        the number of directions; for an orthogonal one by 0.84. The norm in B_simple
        lacks its square.""",
    counterexample="""G of rank one, B = B_simple/30: the best rate is more than three times
        η_max·(1 + 30)^{−1/2}.""",
    corrected="""E polar(G̃) is G times a function of its singular values over σ√(n/B): the formula
        where they are spread as the noise's are. B_simple = mnσ²/‖G‖_F².""",
    seconds=3,
)
SIDE, RATIOS = 48, (1 / 30, 0.1, 1 / 3, 1.0, 3.0, 10.0, 30.0)


@CLAIM.stated("E G̃ᵀG̃ = GᵀG + (nσ²/B) I for independent entries", PROVED)
def squares(lab: Lab) -> Finding:
    g = sp.Matrix(3, 2, sp.symbols("g1:7", real=True))
    noise = sp.Matrix(3, 2, sp.symbols("x1:7", real=True))
    variance = sp.Symbol("v", positive=True)  # σ²/B
    drawn = (g + noise).T * (g + noise)
    means = drawn.applyfunc(lambda entry: expected(entry, list(noise), variance))
    return lab.proved(sp.expand(means - g.T * g - 3 * variance * sp.eye(2)).is_zero_matrix, "n = 3")


@CLAIM.stated("B_simple = mnσ²/tr(GᵀG) = mnσ²/‖G‖_F", REFUTED)
def slip(lab: Lab) -> Finding:
    g = sp.Matrix([[2, 0], [0, 1]])
    return lab.proved(
        sp.trace(g.T * g) == g.norm(), f"tr(GᵀG) = {sp.trace(g.T * g)}, ‖G‖_F = {g.norm()}"
    )


@CLAIM.correction("B_simple = mnσ²/‖G‖_F²", PROVED)
def square(lab: Lab) -> Finding:
    g = sp.Matrix(2, 3, sp.symbols("g1:7", real=True))
    return lab.proved(sp.expand(sp.trace(g.T * g) - g.norm() ** 2) == 0, "tr(GᵀG) = ‖G‖_F²")


@CLAIM.stated("the curve, for a gradient spread like the noise, within 5 %", SUPPORTED)
def alike(lab: Lab) -> Finding:
    g = normal(lab.seed + 1, SIDE, SIDE)
    return lab.ratio(
        {f"B/B_simple {r:.3g}": lab.mean(over(lab, g, r)) for r in RATIOS}, "over the formula"
    )


@CLAIM.stated("the curve, for a gradient of rank one, within 5 %", REFUTED)
def rank_one(lab: Lab) -> Finding:
    return lab.ratio(lab.mean(over(lab, single(lab), RATIOS[0])), "over the formula at B_simple/30")


@CLAIM.ours("the curve, for an orthogonal gradient, within 5 %", REFUTED)
def orthogonal(lab: Lab) -> Finding:
    g, _ = np.linalg.qr(normal(lab.seed + 1, SIDE, SIDE))
    return lab.ratio(lab.mean(over(lab, g, RATIOS[0])), "over the formula at B_simple/30")


@CLAIM.correction("rank one: more than three times the formula at B_simple/30", SUPPORTED)
def more(lab: Lab) -> Finding:
    return lab.at_least(lab.mean(over(lab, single(lab), RATIOS[0])), 3.0, "over the formula")


@CLAIM.ours("the root of the small batches is what the package derives for Muon", PROVED)
def derived(lab: Lab) -> Finding:
    found = {row["rate"] for row in across_batch("muon") if row["role"] in ("fc1", "value")}
    return lab.proved(found == {"B**(1/2)"}, f"rates of its matrices: {sorted(found)}")


def expected(entry: sp.Expr, noise: list[sp.Symbol], variance: sp.Symbol) -> sp.Expr:
    """The mean over independent centred entries of one variance, to second order in them."""
    found = sp.expand(entry)
    for x in noise:
        found = sp.expand(found.coeff(x, 0) + found.coeff(x, 2) * variance)
    return found


def single(lab: Lab) -> Array:
    return np.outer(normal(lab.seed + 1, SIDE), normal(lab.seed + 2, SIDE))


def over(lab: Lab, g: Array, ratio: float) -> Array:
    """tr(polar(G̃)ᵀG)/‖G‖_* over (1 + B_simple/B)^{−1/2} at B = ratio·B_simple, by draw: (16,)."""
    size = ratio * g.size / (g * g).sum()
    noise, found = normal(lab.seed, 16, *g.shape) / np.sqrt(size), np.zeros(16)
    for drawn in (g + noise, g - noise):
        u, _, v = np.linalg.svd(drawn, full_matrices=False)
        found += ((u @ v) * g).sum((1, 2)) / 2
    return np.asarray(found / np.linalg.norm(g, "nuc") * np.sqrt(1 + 1 / ratio))
