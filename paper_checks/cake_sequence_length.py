"""‖ΔF‖_F ≤ Σ_p ‖Δx_p‖, so the bound depends on the sequence length."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

BOUND, TIGHT, SHARPER, GROWS, LAW = (
    "the inequality",
    "in real steps the sum is within a factor 2 of ‖ΔF‖_F",
    "‖ΔF‖_F ≤ √n · max_p ‖Δx_p‖",
    "‖ΔF‖_F of an SGD step on the mean loss grows with n",
    "one token's change: exponent −1/2 in n for correlated tokens",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The squares expanded; SGD steps of DeepNorm stacks at growing sequence lengths."""
    import sympy as sp

    from deepnet_theory.spec.selection import Selection
    from paper_checks._cake_measure import DEEPNORM, np, power, settings, token_changes
    from paper_checks._verdicts import exponent, proved, seen

    s = sp.symbols("s_1:4", nonnegative=True)
    gap = sp.expand(sum(s) ** 2 - sum(e**2 for e in s))
    largest = sp.Symbol("M", positive=True)
    slack = sp.symbols("t_1:4", nonnegative=True)  # s_p² = M² − t_p
    sharper = sp.expand(3 * largest**2 - sum(largest**2 - t for t in slack))
    lengths = context.pick((32, 64, 128, 256), (32, 64, 128, 256, 512))
    rows, slopes, frobenius, loose = {}, {}, {}, {}
    for data in ("gaussian:0", "gaussian:0.5", "text"):
        sizes = [
            token_changes(
                Selection(optimizer="sgd"),
                DEEPNORM,
                context.pick(4, 16),
                settings(context, tokens=n, data=data, dtype="float64", seeds=32),
            )
            for n in lengths
        ]
        token = np.array([x.mean(1) for x in sizes]).T
        whole = np.array([np.sqrt((x**2).sum(1)) for x in sizes]).T
        loose[data] = float((sizes[-1].sum(1) / whole[:, -1]).mean() / lengths[-1] ** 0.5)
        slopes[data], frobenius[data] = power(lengths, token), power(lengths, whole)
        rows[data] = {"token": token.mean(0).tolist(), "frobenius": whole.mean(0).tolist()}
    text = {k: [v.estimate, v.low, v.high] for k, v in slopes.items()}
    whole_text = {k: [v.estimate, v.low, v.high] for k, v in frobenius.items()}
    return (
        proved(BOUND, all(c > 0 for c in sp.Poly(gap, *s).coeffs()), f"(Σs)² − Σs² = {gap} ≥ 0"),
        seen(
            TIGHT,
            all(v * lengths[-1] ** 0.5 < 2 for v in loose.values()),
            (
                f"Σ_p ‖Δx_p‖ over ‖ΔF‖_F is { ({k: round(v, 2) for k, v in loose.items()}) } "
                f"times √n at n = {lengths[-1]}"
            ),
        ),
        proved(
            SHARPER,
            all(c > 0 for c in sp.Poly(sharper, largest, *slack).coeffs()),
            f"n·M² − Σ s_p² = {sharper} ≥ 0 with s_p² = M² − t_p",
        ),
        seen(
            GROWS,
            all(v.low > 0.05 for v in frobenius.values()),
            (
                "exponent of ‖ΔF‖_F in n: "
                f"{ ({k: round(v.estimate, 2) for k, v in frobenius.items()}) }"
            ),
            exponents=whole_text,
            rows=rows,
            lengths=list(lengths),
        ),
        exponent(
            LAW,
            slopes["gaussian:0.5"],
            -0.5,
            (("independent tokens", slopes["gaussian:0"].estimate), ("none", 0.0)),
            what="exponent of ‖Δx_p‖ in n, tokens of correlation 0.5",
            by_data=text,
        ),
    )


CLAIM = Claim(
    name="cake-sequence-length",
    source=(
        "Transformer layer cake (AI推公式), §5, first displayed equation, and §5.3, last paragraph"
    ),
    statement=(
        "‖ΔF‖_F ≤ Σ_{p=1}^{n} ‖Δx_{2N+1,p}‖₂, so the bound depends on the sequence length n, "
        "which the paper omits."
    ),
    conditions=(
        "DeepNorm encoders under SGD on the mean loss over tokens, n = 8 to 256; text, "
        "Gaussian tokens of correlation 0 and 0.5"
    ),
    recorded=(
        Ruling(BOUND, Verdict.PROVED),
        Ruling(TIGHT, Verdict.REFUTED),
        Ruling(SHARPER, Verdict.PROVED, corrected=True),
        Ruling(GROWS, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "The inequality is right and loose by √n in every real step, because all tokens move "
        "by about the same amount; ‖ΔF‖_F ≤ √n max‖Δx_p‖ is the sharp form. With a loss "
        "averaged over tokens one token's update falls with n, as n^{−1/2} for tokens of "
        "correlation ½ and as n^{−0.8} for independent ones, so the norm of the whole output "
        "hardly grows: exponents −0.3 (independent), 0.0 (correlation ½) and 0.2 (text). The "
        "paper loses little by leaving n out."
    ),
    counterexample="n = 2 equal tokens: Σ‖Δx_p‖ = 2‖Δx‖, ‖ΔF‖_F = √2‖Δx‖.",
    corrected=(
        "‖ΔF‖_F ≤ √n max_p ‖Δx_p‖, and with the loss averaged over tokens ‖Δx_p‖ falls with "
        "n, so ‖ΔF‖_F does not grow."
    ),
    check=check,
    seconds=3.0,
)
