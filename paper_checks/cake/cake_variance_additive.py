from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, np, once, sp
from paper_checks.shared.record import CAKE, DEEPNET, MARGIN, PROVED, REFUTED, SUPPORTED
from paper_checks.shared.stacks import PLAIN, residual_sums

CLAIM = Claim(
    name="cake-variance-additive",
    source=f"{CAKE}, §4.2, second simplification; {DEEPNET}, Theorem 4.2",
    statement="""var(x + G_l(x)) = Θ(var(x) + var(G_l(x))), with G_l(x) = Θ(v_l w_l x), so x_{l+1} =
        (α + v_l w_l)/√(α² + v_l² w_l²) · x_l.""",
    conditions="""scalars v, w, α > 0; torch encoders of plain Post-LN (the largest branches),
        widths 16 to 128; text and Gaussian tokens of correlation 0 and ½, one and four heads, ReLU
        and GELU""",
    finding="""As an order the step is right for G = vwx: (1 + r)² and 1 + r² differ by at most a
        factor of 2. Used together with G = vwx and then differentiated it is inconsistent: divided
        by its true standard deviation the scalar sublayer is the identity, and every derivative in
        v and w vanishes. For the other sign, which the source brings in later, it is no order at
        every r: (1 − r)²/(1 + r²) goes to 0 as r → 1. What saves the theorem is that real branches
        have a covariance with their input of mean 0 and of relative size d^{−1/2}, so that
        variances do add to a few percent; in the scalar model the sign of the branch has to be
        random.""",
    counterexample="""α = v = w = 1, G = x: var(x + G) = 4 var x, not 2 var x, and x_{l+1} = x_l
        whatever v and w are; G = −x: var(x + G) = 0.""",
    corrected="""var(αx + G) = α²var x + var G + 2α cov(x, G), where for random matrices the
        covariance has mean 0 and relative size d^{−1/2}; in the scalar model the sign of the branch
        must be random.""",
)


@CLAIM.stated("as an order, for G = vwx with v, w > 0: within a factor 2", PROVED)
def order(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    ratio = (1 + r) ** 2 / (1 + r**2)
    above, below = ratio - 1 - 2 * r / (1 + r**2), 2 - ratio - (1 - r) ** 2 / (1 + r**2)
    same = sp.simplify(above) == 0 == sp.simplify(below)
    because = "(1 + r)²/(1 + r²) = 1 + 2r/(1 + r²) = 2 − (1 − r)²/(1 + r²) lies in [1, 2]"
    return lab.proved(same, because)


@CLAIM.ours("as an order at every r, for the random sign's G = −vwx", REFUTED)
def minus(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    ratio = (1 - r) ** 2 / (1 + r**2)  # r = vw/α
    because = f"var(αx − vwx) over α²var x + v²w²var x is {ratio}, which goes to 0 as r → 1"
    return lab.proved(sp.limit(ratio, r, 1, "-") > 0, because)


@CLAIM.stated("used together with G = vwx and then differentiated", REFUTED)
def differentiated(lab: Lab) -> Finding:
    x, v, w, a = sp.symbols("x v w alpha", positive=True)
    true = (a * x + v * w * x) / sp.sqrt((a + v * w) ** 2)  # over its own deviation, var x = 1
    assumed = (a + v * w) * x / sp.sqrt(a**2 + v**2 * w**2)
    slopes = [sp.simplify(sp.diff(true, k)) for k in (v, w)]
    return lab.proved(
        slopes != [0, 0],
        f"with the true variance (α + vw)² the sublayer is f = x: ∂f/∂v, ∂f/∂w = {slopes}; with "
        f"the additive one ∂f/∂v = {sp.simplify(sp.diff(assumed, v))}",
    )


@CLAIM.correction("exact in the mean over a random sign of the branch", PROVED)
def random_sign(lab: Lab) -> Finding:
    a, b = sp.symbols("alpha b", positive=True)
    gap = ((a + b) ** 2 + (a - b) ** 2) / 2 - a**2 - b**2
    because = "½(α + vw)² + ½(α − vw)² = α² + v²w²"
    return lab.proved(sp.expand(gap) == 0, because)


@CLAIM.correction("real branches: equality to a few percent at width 64", SUPPORTED)
def real(lab: Lab) -> Finding:
    biases = {label: lab.mean(by_width[64].mean(1)) for label, by_width in gaps(lab).items()}
    what = "mean of var(x + G)/(var x + var G) − 1 over tokens, sublayers, seeds"
    return lab.within(biases, -MARGIN, MARGIN, what)


@CLAIM.correction("real branches: the deviation shrinks as d^(−1/2)", SUPPORTED)
def narrower(lab: Lab) -> Finding:
    found, rms = {}, {}
    for label, by_width in gaps(lab).items():
        spread = lab.columns(np.sqrt((gap**2).mean(1)) for gap in by_width.values())
        found[label], rms[label] = lab.power(lab.widths(), spread), spread.mean(0).tolist()
    what = "root mean square deviation against d, exponent"
    return lab.exponent(found, -0.5, (("no law", 0.0), ("1/d", -1.0)), what=what, rms=rms)


@once
def gaps(lab: Lab) -> dict[str, dict[int, Array]]:
    """var(x + G)/(var x + var G) − 1 by condition and width: (seeds, sublayers × tokens)."""
    varied: dict[str, dict[str, Any]] = {
        "independent tokens": {"data": "gaussian:0"},
        "correlated tokens": {"data": "gaussian:0.5"},
        "one head": {"heads": 1},
        "GELU": {"activation": "gelu"},
    }
    conditions = {"text": {}, **lab.pick({}, varied)}
    every = conditions.items()
    return {label: {d: gap(lab, width=d, **given) for d in lab.widths()} for label, given in every}


def gap(lab: Lab, **given: Any) -> Array:
    """The same of one stack."""
    found = []
    for _, x, out in residual_sums(PLAIN.trial(lab.pick(4, 12), lab.small(seeds=128, **given))):
        both, alone, branch = (y.var(-1, unbiased=False) for y in (x + out, x, out))
        found.append((both / (alone + branch) - 1).flatten(1).numpy())
    return np.concatenate(found, axis=1)
