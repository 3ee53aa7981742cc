from math import exp

from paper_checks.shared.bench import Array, Claim, Expr, Finding, Lab, once, sp, torch
from paper_checks.shared.engine import gaussian_moment
from paper_checks.shared.gaussian import SIZES, drawn, entries, expect, squared
from paper_checks.shared.record import CAKE, MARGIN, PROVED, SUPPORTED

CLAIM = Claim(
    name="cake-xavier-forward",
    source=f"{CAKE}, §3",
    statement="""With variance 1/n_l and mean-zero inputs E x_{l+1}² = E x_l²; with β²/n_l it is
        multiplied by β²; 2/(n_l + n_{l+1}) is a compromise between forward and backward; for ReLU
        the mean is not zero, but 2β²/n_l does the same.""",
    conditions="""W with independent centred Gaussian entries, any input; chains of 64 ReLU layers
        of width 32 to 256""",
    finding="""All second moments are right, and more general than stated: they hold for any fixed
        input, of whatever mean, since only the weights need mean 0. The factor 2 is ReLU's alone:
        with the same variance GELU keeps 0.92 and SiLU 0.80. And they are means over draws: the
        length of one deep ReLU chain falls typically as exp(−cL/n), c = 5/4, which at width 32 is a
        factor of 14 in 64 layers, while rare draws keep the mean square at 1.""",
    corrected="""E‖x_{l+1}‖² = (n_{l+1}/n_l)β²‖x_l‖² for every x_l, of whatever mean; it is a mean
        over draws, and the typical length of a deep chain falls as exp(−5L/(4n)) for ReLU, to first
        order in 1/n.""",
)
LAYERS = 64
WIDTHS = ((32, 64, 128), (32, 64, 128, 256))  # of the chains


@CLAIM.stated("variance 1/n keeps E x² through a linear layer", PROVED)
def kept(lab: Lab) -> Finding:
    n, k = sizes()
    image = entry_square(1 / n)
    because = f"E‖xW‖² = {image * k / n}·‖x‖² for any fixed x"
    return lab.proved(image == 1, because)


@CLAIM.stated("gain β multiplies it by β²; ‖x_{l+1}‖² = (n_{l+1}/n_l)β²‖x_l‖² in the mean", PROVED)
def gain(lab: Lab) -> Finding:
    n, _ = sizes()
    beta = sp.Symbol("beta", positive=True)
    image = entry_square(beta**2 / n)
    return lab.proved(image == beta**2, f"the same contraction gives {image}")


@CLAIM.stated("variance 2β²/n does so through ReLU, exactly", PROVED)
def relu(lab: Lab) -> Finding:
    half = gaussian_moment(2) / gaussian_moment(2, -sp.oo)
    because = f"of E y² the positive half is {half}, and y is Gaussian given x"
    return lab.proved(half == sp.Rational(1, 2), because)


@CLAIM.stated(
    "2/(n_in + n_out) gives forward n_in/mean(n), backward n_out/mean(n): neither is 1 "
    "unless n_in = n_out",
    PROVED,
)
def compromise(lab: Lab) -> Finding:
    n, k = sizes()
    forward = entry_square(2 / (n + k))
    backward = forward.subs({n: k, k: n}, simultaneous=True)
    mean_size = (n + k) / 2
    right = [sp.simplify(forward - n / mean_size), sp.simplify(backward - k / mean_size)]
    because = f"forward {sp.factor(forward)}, backward {sp.factor(backward)}, summing to 2"
    return lab.proved(right == [0, 0], because)


@CLAIM.ours(
    "the factor 2 is ReLU's alone: GELU and SiLU do not keep the second moment with it", SUPPORTED
)
def others(lab: Lab) -> Finding:
    found = {name: lab.mean(squares(lab)[name]) for name in ("gelu", "silu")}
    because = ", ".join(f"E φ(y)²/E x² is {lab.text(i)} for {name}" for name, i in found.items())
    return lab.seen(all(i.outside(1 - MARGIN, 1 + MARGIN) for i in found.values()), because)


@CLAIM.ours(
    "over L layers the typical length falls as exp(−c L/n), the mean square does not", SUPPORTED
)
def typical(lab: Lab) -> Finding:
    widths, rivals = lab.pick(*WIDTHS), (("none", 0.0),)
    found, factors = lab.power(widths, falls(lab)), [exp(fall) for fall in falls(lab).mean(0)]
    what = "exponent in width of the fall of the log length"
    return lab.exponent(found, -1.0, rivals, what=what, falls_by_a_factor=factors, widths=widths)


@CLAIM.ours("there c = 5/4 for ReLU", SUPPORTED)
def coefficient(lab: Lab) -> Finding:
    n = lab.pick(*WIDTHS)[-1]
    c = lab.mean(falls(lab)[:, -1] * n / LAYERS)
    what = f"n/L times the fall of the log length, n = {n}"
    return lab.within(c, 1.25 * (1 - MARGIN), 1.25 * (1 + MARGIN), what)


def sizes() -> tuple[Expr, Expr]:
    """n_l and n_{l+1}."""
    n, k = sp.symbols("n k", integer=True, positive=True)
    return n, k


def entry_square(variance: Expr) -> Expr:
    """E of an entry's square of xW over that of x, any fixed vector: n times the variance."""
    s = sp.Symbol("s", positive=True)
    for d, m in SIZES:
        x, W = entries("x", 1, d), entries("W", d, m)
        if sp.expand(expect(squared(x * W), drawn(W, s)) - m * s * squared(x)) != 0:
            return sp.nan
    return sp.simplify(sizes()[0] * variance)


@once
def squares(lab: Lab) -> dict[str, Array]:
    """Draws of φ(y)² where y has variance 2."""
    y = lab.normal(lab.generator(4), lab.pick(40_000, 400_000)) * 2**0.5
    functions = torch.nn.functional
    return {n: getattr(functions, n)(y).square().numpy() for n in ("relu", "gelu", "silu")}


@once
def falls(lab: Lab) -> Array:
    """How far the log length of ReLU chains falls, in ten blocks of draws: (blocks, widths)."""
    g, columns = lab.generator(6), []
    for width in lab.pick(*WIDTHS):
        z = torch.ones(lab.pick(1000, 8000), width, dtype=torch.float64)
        total = torch.zeros(len(z), dtype=torch.float64)
        for _ in range(LAYERS):
            # zW for a fresh Gaussian W is Gaussian given z: no matrix has to be drawn
            z = torch.relu(lab.normal(g, *z.shape) * (2 * z.square().mean(1, keepdim=True)).sqrt())
            square = z.square().mean(1)
            # of mean 1: log y − (y − 1) has the mean of log y and far less of its variance
            total += (square.log() - (square - 1)) / 2
            z = z / square.sqrt()[:, None]
        columns.append([-float(block.mean()) for block in total.chunk(10)])
    return lab.columns(columns)
