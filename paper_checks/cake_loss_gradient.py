"""‖∂L/∂F‖ = O(1), whatever depth and parameters."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

DEPTH, BOUND, PARAMETERS, WIDTH, LAW, CORRECTED = (
    "in depth, DeepNorm and plain Post-LN",
    "a softmax cross-entropy has ‖∂L/∂F_p‖ ≤ √2‖W_head‖₂ for one token's loss",
    "whatever the parameters: also those of the head",
    "whatever the width, at a fixed vocabulary",
    "it goes as √(d/(d + V)), d the width and V the vocabulary",
    "per token it is the head's gain times a function of width, exponent 1 in the gain",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The loss's gradient at the output of built stacks, in depth, width and the head's gain."""
    import sympy as sp

    from deepnet_theory.numeric.stack import VOCAB
    from deepnet_theory.spec.selection import Selection
    from paper_checks._cake_measure import DEEPNORM, PLAIN, np, output_gradient, power, settings
    from paper_checks._verdicts import exponent, proved, within

    # ‖p − e_y‖² = Σp² − 2p_y + 1 ≤ 2 for a probability vector: the slack as positive terms
    p = sp.symbols("p_1:4", positive=True)
    rest = (1 - p[0]) ** 2 + p[1] ** 2 + p[2] ** 2
    slack = sp.expand((2 - rest).subs(p[0], 1 - p[1] - p[2]))  # with p_2 + p_3 ≤ 1 still to use
    u = sp.Symbol("u", nonnegative=True)
    slack = sp.expand(2 * (p[1] + p[2] + u) ** 2 - (p[1] + p[2]) ** 2 - p[1] ** 2 - p[2] ** 2)
    sgd = Selection(optimizer="sgd")
    depths = context.pick((4, 8, 16, 32), (8, 16, 32, 64, 128))
    by_depth = {}
    for data in context.pick(("text",), ("text", "gaussian:0", "gaussian:0.5")):
        for name, rule in (("DeepNorm", DEEPNORM), ("plain", PLAIN)):
            values = np.array(
                [output_gradient(sgd, rule, n, settings(context, data=data)) for n in depths]
            ).T
            by_depth[f"{name}, {data}"] = power(depths, values)
    gains = (0.25, 0.5, 1.0)
    by_gain = np.array([output_gradient(sgd, DEEPNORM, 4, settings(context), g) for g in gains]).T
    larger = np.array(
        [output_gradient(sgd, DEEPNORM, 4, settings(context), g) for g in (1.0, 16.0)]
    ).T
    widths = context.pick((16, 32, 64), (16, 32, 64, 128))
    by_width = np.array(
        [output_gradient(sgd, DEEPNORM, 4, settings(context, width=d, seeds=32)) for d in widths]
    ).T
    share = np.array(widths) / (np.array(widths) + VOCAB)
    from paper_checks._cake_measure import mean

    return (
        exponent(
            DEPTH,
            by_depth,
            0.0,
            (("one per layer", 0.5),),
            what="exponent in N",
        ),
        proved(
            BOUND,
            all(c > 0 for c in sp.Poly(slack, *p[1:], u).coeffs()),
            "2 − ‖p − e_y‖² is a sum of positive terms where Σp = 1",
        ),
        within(
            PARAMETERS,
            mean(larger[:, 1] / larger[:, 0]),
            0.95,
            1.05,
            "a head of 16 times the size: gradient over that of a Xavier head",
        ),
        exponent(
            WIDTH, power(widths, by_width), 0.0, what="exponent in width", widths=list(widths)
        ),
        exponent(
            LAW,
            power(widths, by_width / np.sqrt(share)),
            0.0,
            (("constant", -0.45), ("√d", 0.05 + 0.04)),
            what="exponent in width of the gradient over √(d/(d + V))",
        ),
        exponent(
            CORRECTED,
            power(gains, by_gain),
            1.0,
            (("none", 0.0),),
            what="exponent in the head's gain, up to Xavier's",
        ),
    )


CLAIM = Claim(
    name="cake-loss-gradient",
    source="Transformer layer cake (AI推公式), §4.3, second displayed equation",
    statement="‖∂L/∂F‖ = O(1), in general independent of the model's parameters and of N.",
    conditions=(
        "softmax cross-entropy through a head of gain g; one token's loss; built encoders of "
        "4 to 128 layers, widths 16 to 128"
    ),
    recorded=(
        Ruling(DEPTH, Verdict.SUPPORTED),
        Ruling(BOUND, Verdict.PROVED),
        Ruling(PARAMETERS, Verdict.REFUTED),
        Ruling(WIDTH, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
        Ruling(CORRECTED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "In depth it holds as well as anything can be measured: exponent 0.00 for DeepNorm "
        "and plain Post-LN alike, because the final norm fixes F's length. It is not "
        "independent of the parameters: the bound is √2‖W_head‖₂ for one token's loss, the "
        "gradient is proportional to the head's gain (22 times for a head 16 times as large) "
        "and grows with width. It should read: bounded in depth, with a constant set by the "
        "head."
    ),
    counterexample="Two classes, head W = (g, −g), F = 0: ∂L/∂F = ±g, as large as g is.",
    corrected=(
        "‖∂L/∂F_p‖ ≤ √2‖W_head‖₂ for one token's loss (over n for the mean over n tokens): "
        "bounded in depth, proportional to the head's gain."
    ),
    check=check,
    seconds=2.0,
)
