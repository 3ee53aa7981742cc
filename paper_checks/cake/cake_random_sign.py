import math
from collections.abc import Iterator
from itertools import product

from paper_checks.shared.bench import Array, Claim, Expr, Finding, Lab, Tensor, once, sp, torch
from paper_checks.shared.engine import formula
from paper_checks.shared.record import CAKE, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM

CLAIM = Claim(
    name="cake-random-sign",
    source=f"{CAKE}, §4.3, supplement (product of 2N − i Jacobians)",
    statement="""On average half the signs are positive, so ∏_{K} ∂x_{l+1}/∂x_l = ((α² − v²w²)/(α² +
        v²w²))^{K/2} < 1, with a random sign I in each branch.""",
    conditions="""scalar sublayers with fair independent signs; matrices (1 + rG/√d)/√(1 + r²) with
        Gaussian G of width 8 to 128""",
    finding="""The printed product, half the signs positive, is the geometric mean over the signs,
        for odd K as well as even, and it is below 1: on average, as the source says, and not draw
        by draw. The mean is (1 + r²)^{−K/2} and the root mean square is 1 at every r and K. A
        product of Jacobians of width d behaves like the last: its typical size falls as exp(−K
        r²/d), a factor of d more slowly than the scalar formula says. At DeepNorm's constants K r²
        = 2N r² = (32N)^{−1/2} itself tends to 0, so the 'exponential decay' leaves 0.95 of the
        gradient at 10 layers and 0.99 at 1,000.""",
    counterexample="K = 2, both signs positive: (1 + r)²/(1 + r²) > 1 for every r > 0.",
    corrected="""Geometric mean ((1 − r²)/(1 + r²))^{K/2}, mean (1 + r²)^{−K/2}, root mean square
        exactly 1; for Jacobians of width d the typical product is exp(−K(r²/d)(1 + r²/2)/(1 +
        r²)²), to first order in 1/d.""",
    seconds=2.5,
)
BRANCH, COUNT = 0.3, (20, 40)  # r and K
WIDTHS = ((8, 16, 32, 64), (8, 16, 32, 64, 128))


@CLAIM.stated("((1 − r²)/(1 + r²))^{K/2} is the geometric mean over the signs, any K", PROVED)
def geometric(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    one = (1 - r**2) / (1 + r**2)
    # squared, so that both sides are rational in r; both are positive for r < 1
    squares = {K: sp.Mul(*(p**2 for p in products(K))) for K in (1, 2, 3, 4)}
    same = all(sp.factor(square / one ** (K * 2**K)) == 1 for K, square in squares.items())
    because = "all 2^K patterns at K = 1 … 4 as polynomials in r; the source's even K is not needed"
    return lab.proved(same, because)


@CLAIM.stated("that mean is below 1 for 0 < r < 1", PROVED)
def below(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    gap = 1 - (1 - r**2) / (1 + r**2) - 2 * r**2 / (1 + r**2)
    return lab.proved(sp.simplify(gap) == 0, "1 − (1 − r²)/(1 + r²) = 2r²/(1 + r²) > 0")


@CLAIM.ours("the product itself is below 1, whatever the signs", REFUTED)
def every(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    largest = {K: float(max(p.subs(r, sp.Rational(2, 7)) for p in products(K))) for K in (1, 2, 3)}
    return lab.proved(max(largest.values()) < 1, f"largest product at r = 2/7: {largest}")


@CLAIM.ours("it is the magnitude of a product of wide Jacobians", REFUTED)
def wide(lab: Lab) -> Finding:
    d = lab.pick(*WIDTHS)[-1]
    scalar = math.log((1 + BRANCH**2) / (1 - BRANCH**2)) / 2
    what = f"decay of the typical product at d = {d} in units of the formula's"
    return lab.ratio(lab.mean(decays(lab)[:, -1] / scalar), what)


@CLAIM.correction(
    "the mean is (1 + r²)^{−K/2} and the root mean square 1, for every r and K", PROVED
)
def moments(lab: Lab) -> Finding:
    r, right = sp.Symbol("r", positive=True), []
    for K in (1, 2, 3, 4):
        every = products(K)
        right.append(sp.simplify(sum(every) / 2**K - (1 + r**2) ** sp.Rational(-K, 2)))
        right.append(sp.simplify(sum(p**2 for p in every) / 2**K - 1))
    return lab.proved(not any(right), "over all patterns, K = 1 … 4")


@CLAIM.correction("the typical product of wide Jacobians is exp(−K r²/d), for small r", SUPPORTED)
def typical(lab: Lab) -> Finding:
    found = lab.power(lab.pick(*WIDTHS), decays(lab))
    rivals = (("scalar formula", 0.0), ("root", -0.5))
    return lab.exponent(found, -1.0, rivals, what="decay rate against width, exponent")


@CLAIM.correction("its coefficient at any r: (1 + r²/2)/(1 + r²)²", SUPPORTED)
def coefficient(lab: Lab) -> Finding:
    d = lab.pick(*WIDTHS)[-1]
    exact = BRANCH**2 / d * (1 + BRANCH**2 / 2) / (1 + BRANCH**2) ** 2
    what = f"decay at d = {d} over K(r²/d)(1 + r²/2)/(1 + r²)², r = {BRANCH}"
    return lab.ratio(lab.mean(decays(lab)[:, -1] / exact), what)


@CLAIM.ours("at DeepNorm's constants and K = 2N the geometric mean tends to 1", PROVED)
def at_the_rule(lab: Lab) -> Finding:
    N = formula("N")
    weight = formula(DEEPNORM.beta) ** 2 / formula(DEEPNORM.alpha)
    total, limit = 2 * N * weight**2, sp.limit(2 * N * weight**2, N, sp.oo)
    squares = {n: float(weight.subs(N, n)) ** 2 for n in (10, 100, 1000)}
    means = {n: round(((1 - q) / (1 + q)) ** n, 3) for n, q in squares.items()}
    power = sp.simplify(total - (32 * N) ** sp.Rational(-1, 2)) == 0
    because = f"K r² = 2N·r² = (32N)^(−1/2) → {limit}; the mean at N layers is {means}"
    return lab.proved(limit == 0 and power, because)


def products(K: int) -> list[Expr]:
    """∏ (1 ± r)/√(1 + r²) for all sign patterns."""
    r = sp.Symbol("r", positive=True)
    patterns = product((1, -1), repeat=K)
    return [sp.Mul(*((1 + s * r) / sp.sqrt(1 + r**2) for s in signs)) for signs in patterns]


@once
def decays(lab: Lab) -> Array:
    """−log‖J_K … J_1 u‖/K in the mean of ten blocks of draws: (blocks, widths)."""
    logs = torch.stack([log_product(lab, d) for d in lab.pick(*WIDTHS)])
    blocks: Array = -logs.reshape(len(logs), 10, -1).mean(2).numpy().T / lab.pick(*COUNT)
    return blocks


def log_product(lab: Lab, d: int) -> Tensor:
    """log‖J_K … J_1 u‖ in the mean: (draws,).

    With y a step's squared growth, of mean 1, log y − (y − 1) has the mean of log y and a
    hundredth of its variance.
    """
    return torch.stack([(y.log() - (y - 1)) / 2 for y in growths(lab, d)]).sum(0)


def growths(lab: Lab, d: int) -> Iterator[Tensor]:
    """‖J u‖²/‖u‖² of each of K Jacobians (1 + rG/√d)/√(1 + r²) in turn: (draws,) each."""
    g, draws = lab.generator(d), lab.pick(16000, 40000)
    u = torch.zeros(draws, d, dtype=torch.float64)
    u[:, 0] = 1.0
    for _ in range(lab.pick(*COUNT)):
        # G u for a fresh Gaussian G is a Gaussian vector of length ‖u‖/√d per entry
        u = (u + BRANCH * lab.normal(g, draws, d) / d**0.5) / (1 + BRANCH**2) ** 0.5
        length = u.norm(dim=1)
        yield length**2
        u = u / length[:, None]
