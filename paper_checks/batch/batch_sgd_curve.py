from itertools import product

from paper_checks.shared.batch import SU, normal
from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, sp
from paper_checks.shared.record import PROVED, REFUTED

CLAIM = Claim(
    name="batch-sgd-curve",
    source=f"{SU.format(11260, '2025-09-01')}, 'Warm-up'; arXiv 1812.06162, §2.2",
    statement="""SGD gains most in one update at η* = η_max/(1 + B_noise/B), with η_max = gᵀg/gᵀHg
        and B_noise = tr(ΣH)/gᵀHg: linear in B where B ≪ B_noise, and bounded. In practice H is
        taken as a multiple of the identity, which gives B_simple = tr Σ/gᵀg.""",
    conditions="""a quadratic loss in two coordinates, every batch of 1 to 3 samples of a skewed
        noise of three values enumerated in rational numbers; B_simple on 100 coordinates of
        curvature 1/i with noise in proportion to the curvature""",
    finding="""The curve is exact for any noise, whatever its distribution. B_simple is B_noise
        only where the curvature has no preferred directions: with noise in proportion to a
        curvature of 1/i over 100 coordinates B_noise is several times B_simple, so that a batch
        that looks larger than the noise is still in the linear part.""",
    counterexample="""H = Σ = diag(1, 1/2, …, 1/100) and an isotropic gradient: B_noise is about
        six times B_simple.""",
    corrected="""B_noise/B_simple = (tr(ΣH)/tr Σ)/(gᵀHg/gᵀg), the mean curvature along the noise
        over that along the gradient.""",
    seconds=4,
)


@CLAIM.stated("the curve, under noise of any distribution", PROVED)
def curve(lab: Lab) -> Finding:
    r = sp.Rational
    g, hessian = sp.Matrix([r(2), r(-1)]), sp.Matrix([[r(3), r(1)], [r(1), r(2)]])
    chances = (r(1, 2), r(1, 3), r(1, 6))
    values = [sp.Matrix([r(a), r(b)]) for a, b in ((1, 2), (-3, 0), (6, -6))]  # mean (3/2, 0)
    mean = sum((p * x for p, x in zip(chances, values, strict=True)), sp.zeros(2, 1))
    noise = [x - mean for x in values]
    sigma = sum((p * x * x.T for p, x in zip(chances, noise, strict=True)), sp.zeros(2, 2))
    curved = (g.T * hessian * g)[0]
    at_most, scale = (g.T * g)[0] / curved, (sigma * hessian).trace() / curved
    equal = []
    for size in (1, 2, 3):
        along = bent = r(0)
        for drawn in product(range(3), repeat=size):
            chance = sp.prod(chances[i] for i in drawn)
            u = g + sum((noise[i] for i in drawn), sp.zeros(2, 1)) / size
            along, bent = along + chance * (u.T * g)[0], bent + chance * (u.T * hessian * u)[0]
        equal.append(along / bent == at_most / (1 + scale / size))
    return lab.proved(all(equal), "every batch of 1, 2 and 3 samples enumerated")


@CLAIM.stated("linear in B where B ≪ B_noise, and at most η_max", PROVED)
def ends(lab: Lab) -> Finding:
    batch, noise = sp.symbols("B B_noise", positive=True)
    rate = 1 / (1 + noise / batch)
    linear, bound = sp.limit(rate / batch, batch, 0), sp.limit(rate, batch, sp.oo)
    return lab.proved(linear == 1 / noise and bound == 1, f"{rate}: {linear}·B, then {bound}")


@CLAIM.stated("with H a multiple of the identity B_noise is tr Σ/gᵀg", PROVED)
def simple(lab: Lab) -> Finding:
    c = sp.Symbol("c", positive=True)
    a, b, s, t, u = sp.symbols("a b s t u", real=True)
    g, sigma, hessian = sp.Matrix([a, b]), sp.Matrix([[s, u], [u, t]]), c * sp.eye(2)
    noise = (sigma * hessian).trace() / (g.T * hessian * g)[0]
    return lab.proved(sp.simplify(noise - sigma.trace() / (g.T * g)[0]) == 0, "tr(ΣcI)/(c gᵀg)")


@CLAIM.ours("and so it is with Σ in proportion to a curvature of 1/i", REFUTED)
def aligned(lab: Lab) -> Finding:
    return lab.ratio(lab.mean(apart(lab)), "B_noise over B_simple")


@CLAIM.correction("there B_noise is more than three times B_simple", PROVED)
def several(lab: Lab) -> Finding:
    h = 1 / np.arange(1, 101)
    found = 100 * (h * h).sum() / h.sum() ** 2
    return lab.proved(found > 3, f"n tr H²/(tr H)² = {found:.2f} for an isotropic gradient")


def apart(lab: Lab) -> Array:
    """B_noise over B_simple with Σ = H = diag(1/i), of 64 isotropic gradients."""
    h, g = 1 / np.arange(1, 101), normal(lab.seed, 64, 100) ** 2
    return np.asarray((h * h).sum() / (g * h).sum(1) / (h.sum() / g.sum(1)))
