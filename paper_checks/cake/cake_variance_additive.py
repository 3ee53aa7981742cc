"""var(x + G) is of the order of var x + var G, used together with G = vwx."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

ORDER, MINUS, JOINT, SIGNS, REAL, LAW = (
    "as an order, for G = vwx with v, w > 0: within a factor 2",
    "as an order, for the random sign's G = −vwx: no factor does",
    "used together with G = vwx and then differentiated",
    "exact in the mean over a random sign of the branch",
    "real branches: equality to a few percent at width 64",
    "real branches: the deviation shrinks as d^(−1/2)",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The scalar sublayer with its true variance, and var(x + G) inside real stacks."""
    import sympy as sp

    from deepnet_theory.spec.selection import Selection
    from paper_checks.shared.laboratory import Case, Trial
    from paper_checks.shared.streams import PLAIN, mean, np, power, residual_sums, settings
    from paper_checks.shared.verdicts import MARGIN, exponent, proved, within

    x, v, w, a, r = sp.symbols("x v w alpha r", positive=True)
    ratio = (1 + r) ** 2 / (1 + r**2)
    order = (
        sp.factor(2 - ratio) == sp.factor((1 - r) ** 2 / (1 + r**2))
        and sp.simplify(ratio - 1 - 2 * r / (1 + r**2)) == 0
    )
    true = (a * x + v * w * x) / sp.sqrt(
        (a + v * w) ** 2
    )  # divided by its own deviation, var x = 1
    assumed = (a + v * w) * x / sp.sqrt(a**2 + v**2 * w**2)
    derivatives = [sp.simplify(sp.diff(true, k)) for k in (v, w)], sp.simplify(sp.diff(assumed, v))
    signs = sp.expand(((a + v * w) ** 2 + (a - v * w) ** 2) / 2 - a**2 - v**2 * w**2)
    minus = sp.factor((1 - r) ** 2 / (1 + r**2))  # var(αx − vwx) over the sum of both, r = vw/α
    widths = context.pick((16, 32, 64), (16, 32, 64, 128))
    conditions = context.pick(
        {"text": {}},
        {
            "text": {},
            "independent tokens": {"data": "gaussian:0"},
            "correlated tokens": {"data": "gaussian:0.5"},
            "one head": {"heads": 1},
            "GELU": {"activation": "gelu"},
        },
    )
    slopes, biases, sizes = {}, {}, {}
    for label, changed in conditions.items():
        deviations = []
        for d in widths:
            given = settings(context, width=d, seeds=128, **changed)
            trial = Trial(
                Case(Selection(optimizer="sgd"), PLAIN, {"N": context.pick(4, 12)}, given)
            )
            gaps = []
            for _, inside, out in residual_sums(trial):
                both = (inside + out).var(-1, unbiased=False)
                apart = inside.var(-1, unbiased=False) + out.var(-1, unbiased=False)
                gaps.append((both / apart - 1).flatten(1).numpy())
            table = np.concatenate(gaps, axis=1)  # (seeds, sublayers × tokens)
            deviations.append(np.sqrt((table**2).mean(1)))
            if d == 64:
                biases[label] = mean(table.mean(1))
        slopes[label] = power(widths, np.array(deviations).T)
        sizes[label] = np.mean(deviations, axis=1).tolist()
    return (
        proved(
            ORDER,
            bool(order),
            "(1 + r)²/(1 + r²) = 1 + 2r/(1 + r²) = 2 − (1 − r)²/(1 + r²) lies in [1, 2]",
        ),
        proved(
            MINUS,
            sp.limit(minus, r, 1, "-") > 0,
            f"var(αx − vwx) over α²var x + v²w²var x is {minus}, which goes to 0 as r → 1",
        ),
        proved(
            JOINT,
            derivatives[0] != [0, 0],
            (
                "with the true variance (α + vw)² the sublayer is f = x: ∂f/∂v, ∂f/∂w = "
                f"{derivatives[0]}; with the additive one ∂f/∂v = {derivatives[1]}"
            ),
        ),
        proved(SIGNS, signs == 0, "½(α + vw)² + ½(α − vw)² = α² + v²w²"),
        within(
            REAL,
            biases,
            -MARGIN,
            MARGIN,
            "mean of var(x + G)/(var x + var G) − 1 over tokens, sublayers, seeds",
        ),
        exponent(
            LAW,
            slopes,
            -0.5,
            (("no law", 0.0), ("1/d", -1.0)),
            what="root mean square deviation against d, exponent",
            widths=list(widths),
            rms=sizes,
        ),
    )


CLAIM = Claim(
    name="cake-variance-additive",
    source=(
        "Transformer layer cake (AI推公式), §4.2, second simplification; DeepNet, arXiv "
        "2203.00555, Theorem 4.2"
    ),
    statement=(
        "var(x + G_l(x)) = Θ(var(x) + var(G_l(x))), with G_l(x) = Θ(v_l w_l x), so x_{l+1} = "
        "(α + v_l w_l)/√(α² + v_l² w_l²) · x_l."
    ),
    conditions=(
        "scalars v, w, α > 0; torch encoders of plain Post-LN (the largest branches), widths "
        "16 to 128; text and Gaussian tokens of correlation 0 and ½, one and four heads, ReLU "
        "and GELU"
    ),
    recorded=(
        Ruling(ORDER, Verdict.PROVED),
        Ruling(MINUS, Verdict.REFUTED),
        Ruling(JOINT, Verdict.REFUTED),
        Ruling(SIGNS, Verdict.PROVED, corrected=True),
        Ruling(REAL, Verdict.SUPPORTED, corrected=True),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "As an order the step is harmless for G = vwx: (1 + r)² and 1 + r² differ by at most a "
        "factor of 2. For the other sign, which the source brings in later, it is not: (1 − "
        "r)²/(1 + r²) goes to 0 as r → 1. Used together with G = vwx and then differentiated "
        "it is inconsistent: divided by its true standard deviation the scalar sublayer is the "
        "identity, and every derivative in v and w vanishes. What saves the theorem is that "
        "real branches have a covariance with their input of mean 0 and of relative size "
        "d^{−1/2}, so that variances do add to a few percent; in the scalar model the sign of "
        "the branch has to be random."
    ),
    counterexample=(
        "α = v = w = 1, G = x: var(x + G) = 4 var x, not 2 var x, and x_{l+1} = x_l whatever "
        "v and w are; G = −x: var(x + G) = 0."
    ),
    corrected=(
        "var(αx + G) = α²var x + var G + 2α cov(x, G), where for random matrices the "
        "covariance has mean 0 and relative size d^{−1/2}; in the scalar model the sign of "
        "the branch must be random."
    ),
    check=check,
    seconds=2.0,
)
