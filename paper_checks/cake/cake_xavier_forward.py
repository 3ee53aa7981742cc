"""Xavier initialisation keeps the forward second moment."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

LINEAR, GAIN, RELU, ZERO, COMPROMISE, GELU, CORRECTED, CONSTANT = (
    "variance 1/n keeps E x² through a linear layer",
    "gain β multiplies it by β²; ‖x_{l+1}‖² = (n_{l+1}/n_l)β²‖x_l‖² in the mean",
    "variance 2β²/n does so through ReLU, exactly",
    "the input's mean need not be zero",
    (
        "2/(n_in + n_out) gives forward n_in/mean(n), backward n_out/mean(n): neither is 1 "
        "unless n_in = n_out"
    ),
    "the factor 2 is ReLU's alone: GELU and SiLU do not keep the second moment with it",
    "over L layers the typical length falls as exp(−c L/n), the mean square does not",
    "there c = 5/4 for ReLU",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Exact contraction and Gaussian integrals; draws of single layers and of deep chains."""
    import sympy as sp

    from deepnet_theory.symbolic.expectation import Gaussian, Index, Known, Tensor, expect
    from paper_checks.shared.streams import generator, mean, np, power, torch
    from paper_checks.shared.verdicts import MARGIN, agrees, exponent, proved, seen, text, within

    n, k = sp.symbols("n k", integer=True, positive=True)
    b, X, t, s = sp.symbols("beta X t s", positive=True)
    i, j = Index("i", n), Index("j", k)
    x, W = Tensor("x", (n,)), Tensor("W", (n, k), Gaussian(b**2 / n))
    y = (x[i] * W[i, j]).sum(i)
    length = expect((y * y).sum(j), (Known(X, (x[i] * x[i]).sum(i), 2),))  # x is any fixed vector
    half = (
        sp.integrate(t**2 * sp.exp(-(t**2) / (2 * s**2)) / (s * sp.sqrt(2 * sp.pi)), (t, 0, sp.oo))
        / s**2
    )
    xavier = Tensor("W", (n, k), Gaussian(2 / (n + k)))
    forward = (
        expect(((x[i] * xavier[i, j]).sum(i) ** 2).sum(j), (Known(X, (x[i] * x[i]).sum(i), 2),))
        / X**2
        * n
        / k
    )
    back = Tensor("g", (k,))
    Y = sp.Symbol("Y", positive=True)
    backward = (
        expect(
            ((back[j] * xavier[i, j]).sum(j) ** 2).sum(i),
            (Known(Y, (back[j] * back[j]).sum(j), 2),),
        )
        / Y**2
        * k
        / n
    )
    g = generator(context, 4)
    count = context.pick(40_000, 400_000)
    pre = torch.randn(count, generator=g, dtype=torch.float64) * 2**0.5
    activations = {
        name: mean(getattr(torch.nn.functional, name)(pre).square())
        for name in ("relu", "gelu", "silu")
    }
    shifted = 1 + torch.randn(20, dtype=torch.float64, generator=g)  # a fixed input of mean near 1
    drawn = (
        torch.randn(context.pick(4000, 20000), 20, 30, dtype=torch.float64, generator=g) / 20**0.5
    )
    lengths = mean((shifted @ drawn).square().sum(-1) / (shifted.square().sum() * 30 / 20))

    widths, layers = context.pick((32, 64, 128), (32, 64, 128, 256)), 64
    logs = []
    for width in widths:
        z = torch.ones(context.pick(1000, 8000), width, dtype=torch.float64)
        total = torch.zeros(len(z), dtype=torch.float64)
        for _ in range(layers):
            # zW for a fresh Gaussian W is Gaussian given z: no matrix has to be drawn
            z = torch.relu(
                torch.randn(z.shape, generator=g, dtype=torch.float64)
                * (2 * z.square().mean(1, keepdim=True)).sqrt()
            )
            square = z.square().mean(1)
            # of mean 1: log y − (y − 1) has the mean of log y and far less of its variance
            total += (square.log() - (square - 1)) / 2
            z = z / square.sqrt()[:, None]
        logs.append(total)
    blocks = np.array([[-float(c.mean()) for c in v.chunk(10)] for v in logs]).T
    rate = mean(blocks[:, -1] * widths[-1] / layers)
    return (
        proved(
            LINEAR,
            sp.simplify(length.subs(b, 1) - k / n * X**2) == 0,
            f"E‖xW‖² = {length} for any fixed x",
        ),
        proved(GAIN, sp.simplify(length / (k * b**2 / n * X**2)) == 1, "the same contraction"),
        proved(
            RELU,
            half == sp.Rational(1, 2) and agrees(activations["relu"]),
            f"∫ over the positive half is {half}; drawn {activations['relu'].estimate:.3f}",
        ),
        proved(
            ZERO,
            length.free_symbols <= {b, n, k, X} and agrees(lengths),
            (
                f"E‖xW‖² = {length} knows of x its length alone, since only E w = 0 is used; drawn "
                f"for an input of mean 1, {text(lengths)} of it"
            ),
        ),
        proved(
            COMPROMISE,
            sp.simplify(forward - 2 * n / (n + k)) == 0
            and sp.simplify(backward - 2 * k / (n + k)) == 0,
            f"forward {sp.factor(forward)}, backward {sp.factor(backward)}, summing to 2",
        ),
        seen(
            GELU,
            all(activations[k].outside(1 - MARGIN, 1 + MARGIN) for k in ("gelu", "silu")),
            ", ".join(f"E φ(y)²/E x² is {text(activations[k])} for {k}" for k in ("gelu", "silu")),
        ),
        exponent(
            CORRECTED,
            power(widths, blocks),
            -1.0,
            (("none", 0.0),),
            what="exponent in width of the fall of the log length",
            falls_by_a_factor=np.exp(blocks.mean(0)).tolist(),
            widths=list(widths),
        ),
        within(
            CONSTANT,
            rate,
            1.25 * (1 - MARGIN),
            1.25 * (1 + MARGIN),
            f"n/L times the fall of the log length, n = {widths[-1]}",
        ),
    )


CLAIM = Claim(
    name="cake-xavier-forward",
    source="Transformer layer cake (AI推公式), §3",
    statement=(
        "With variance 1/n_l and mean-zero inputs E x_{l+1}² = E x_l²; with β²/n_l it is "
        "multiplied by β²; 2/(n_l + n_{l+1}) is a compromise "
        "between forward and backward; for ReLU the mean is not zero, but 2β²/n_l does the same."
    ),
    conditions=(
        "W with independent centred Gaussian entries, any input; chains of 64 ReLU layers of "
        "width 32 to 256"
    ),
    recorded=(
        Ruling(LINEAR, Verdict.PROVED),
        Ruling(GAIN, Verdict.PROVED),
        Ruling(RELU, Verdict.PROVED),
        Ruling(ZERO, Verdict.PROVED),
        Ruling(COMPROMISE, Verdict.PROVED),
        Ruling(GELU, Verdict.SUPPORTED),
        Ruling(CORRECTED, Verdict.SUPPORTED, corrected=True),
        Ruling(CONSTANT, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "All second moments are right, and more general than stated: they hold for any fixed "
        "input, of whatever mean, since only the weights need mean 0. The factor 2 is ReLU's "
        "alone: with the same variance GELU keeps 0.92 and SiLU 0.80. And they are means "
        "over draws: the length of one deep ReLU chain falls typically as exp(−cL/n), c = "
        "5/4, which at width 32 is a factor of 14 in 64 layers, while rare draws keep the "
        "mean square at 1."
    ),
    corrected=(
        "E‖x_{l+1}‖² = (n_{l+1}/n_l)β²‖x_l‖² for every x_l, of whatever mean; it is a mean "
        "over draws, and the typical length of a deep chain falls as exp(−5L/(4n)) for "
        "ReLU, to first order in 1/n."
    ),
    check=check,
    seconds=2.0,
)
