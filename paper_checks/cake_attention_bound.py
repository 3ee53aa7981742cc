"""The attention sublayer obeys the same bound; heads do not matter."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

LINEAR, RANDOM, HEADS, HEADS_STEP, STEP, SCORES, LAW = (
    "linear branch xW_VW_O, Δθ independent: E‖·‖² ≤ (v² + w²)E‖Δθ‖², concatenated heads",
    "real attention, Δθ in random directions: within the bound",
    "real attention: the change does not depend on the number of heads, random directions",
    "real attention: the change does not depend on the number of heads, SGD step",
    "real attention, Δθ an SGD step: within the bound",
    "the softmax's own derivative may be dropped: ∂Attn/∂x Δx is that of the fixed average",
    "SGD step: the change exceeds the bound in proportion to √d",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Exact contraction for the linear branch; built attention sublayers stepped alone."""
    import sympy as sp

    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.moments import Gaussian, Index, Tensor, expect
    from paper_checks._cake_measure import DEEPNORM, PLAIN, bound_ratio, np, power, settings
    from paper_checks._verdicts import exponent, proved, seen, within

    v, w, p, q = sp.symbols("v w p q", positive=True)
    d = sp.Symbol("d", integer=True, positive=True)
    i, j, k = Index("i", d), Index("j", d), Index("k", d)
    x, Wv, Wo = (
        Tensor("x", (d,), Gaussian(sp.Integer(1))),
        Tensor("Wv", (d, d), Gaussian(v**2 / d)),
        Tensor("Wo", (d, d), Gaussian(w**2 / d)),
    )
    dv, do = Tensor("Dv", (d, d), Gaussian(p)), Tensor("Do", (d, d), Gaussian(q))
    moved = (x[j] * dv[j, k] * Wo[k, i]).sum(j, k) + (x[j] * Wv[j, k] * do[k, i]).sum(j, k)
    square = sp.expand(expect((moved * moved).sum(i)))
    gap = sp.expand((v**2 + w**2) * (p + q) * d**2 - square)

    def attention(given):  # type: ignore[no-untyped-def]
        return given.role.value == "scaled" and given.kind == "attention"

    sgd = Selection(optimizer="sgd")
    heads = (1, 2, 4, 8)
    table, levels = {}, {}
    for kind in ("random", "gradient"):
        for data in context.pick(("text", "gaussian:0"), ("text", "gaussian:0", "gaussian:0.5")):
            runs = [
                bound_ratio(
                    sgd,
                    DEEPNORM,
                    context.pick(4, 16),
                    settings(
                        context, dtype="float64", heads=h, data=data, seeds=context.pick(16, 32)
                    ),
                    kind,
                    attention,
                )
                for h in heads
            ]
            levels[kind, data] = power(heads, np.array([r[0] for r in runs]).T)
            table[kind, data] = max(float(r[1].max()) for r in runs)
    widths = context.pick((32, 64, 128), (16, 32, 64, 128))
    wide = power(
        widths,
        np.array(
            [
                bound_ratio(
                    sgd,
                    DEEPNORM,
                    4,
                    settings(context, dtype="float64", width=n, seeds=24),
                    "gradient",
                    attention,
                )[0]
                for n in widths
            ]
        ).T,
    )

    def by_data(kind):  # type: ignore[no-untyped-def]
        return {data: s for (k, data), s in levels.items() if k == kind}

    scores = _scores(context, PLAIN)
    return (
        proved(
            LINEAR,
            all(c > 0 for c in sp.Poly(gap, v, w, p, q, d).coeffs()),
            f"E‖·‖² = {sp.factor(square)}; the heads' W_V side by side are one matrix",
        ),
        seen(
            RANDOM,
            max(s for (k, _), s in table.items() if k == "random") <= 1,
            f"largest over the bound: {max(s for (k, _), s in table.items() if k == 'random'):.2f}",
            table={str(k): s for k, s in table.items()},
        ),
        exponent(
            HEADS, by_data("random"), 0.0, what="exponent in the number of heads, random directions"
        ),
        exponent(
            HEADS_STEP, by_data("gradient"), 0.0, what="exponent in the number of heads, SGD step"
        ),
        seen(
            STEP,
            max(s for (k, _), s in table.items() if k == "gradient") <= 1,
            (
                "largest over the bound: "
                f"{max(s for (k, _), s in table.items() if k == 'gradient'):.2f}"
            ),
        ),
        within(SCORES, scores, 0.0, 0.1, "what the moving scores add to ‖ΔAttn‖, relative"),
        exponent(
            LAW,
            wide,
            0.5,
            (("none", 0.0), ("d", 1.0)),
            what="SGD step: exponent of change over bound in width",
        ),
    )


def _scores(context: Context, rule):  # type: ignore[no-untyped-def]
    """‖ΔAttn − (fixed softmax) Δ(xW_V)W_O‖/‖ΔAttn‖ for a common change of all tokens."""
    from deepnet_theory.numeric.trial import Trial
    from deepnet_theory.spec.selection import Selection
    from paper_checks._cake_measure import mean, norms, settings, torch

    given = settings(context, dtype="float64", seeds=16)
    trial = Trial(Selection(optimizer="sgd"), rule, {"N": 1}, given)
    branch, x = next(trial.model.residuals()).branch, trial.inputs[0]
    g = torch.Generator().manual_seed(context.seed)
    dx = 1e-5 * torch.randn(x.shape, generator=g, dtype=x.dtype)
    with torch.no_grad():
        whole = (branch(x + dx) - branch(x - dx)) / 2
        q, k = branch.split(branch.query(x)), branch.split(branch.key(x))
        s = (q @ k.mT / branch.head_width**0.5).softmax(-1)
        fixed = branch.output((s @ branch.split(branch.value(dx))).transpose(1, 2).reshape(x.shape))
    return mean((norms(whole - fixed) / norms(whole)).numpy())


CLAIM = Claim(
    name="cake-attention-bound",
    source="Transformer layer cake (AI推公式), §5.2",
    statement=(
        "‖Δx_{l+1}‖ ≤ ‖Δx_l‖ + √(v² + w²)/α ‖Δθ_l‖ for the attention sublayer too, with Attn "
        "= XW_VW_O; several heads are one W_V side by side."
    ),
    conditions=(
        "linear branch with variances v²/d, w²/d; built softmax attention with 1 to 8 heads, "
        "widths 16 to 128, text and Gaussian tokens; value and output matrices stepped"
    ),
    recorded=(
        Ruling(LINEAR, Verdict.PROVED),
        Ruling(RANDOM, Verdict.SUPPORTED),
        Ruling(HEADS, Verdict.SUPPORTED),
        Ruling(HEADS_STEP, Verdict.SUPPORTED),
        Ruling(STEP, Verdict.REFUTED),
        Ruling(SCORES, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "For the linear branch xW_VW_O with independent Δθ the bound is proved, and the "
        "number of heads has no effect on real softmax attention at all (exponent 0 within "
        "0.03). For gradient steps it fails by up to a factor of five at width 32, in "
        "proportion to √d, as in the feed-forward sublayer. The substitution Attn = XW_VW_O "
        "loses something else: with query and key at gain 1 the scores' own response to a "
        "change of the input makes up three quarters of the branch's change."
    ),
    counterexample=(
        "d = 1, n = 1, ΔW_O along the gradient: equality in |Δz| = |xW_V||ΔW_O|, which "
        "exceeds √(v² + w²)|ΔW_O| for the half of draws with |W_V| large; in d dimensions "
        "the excess is √d in the mean."
    ),
    corrected=(
        "With operator norms, (‖xW_V‖‖ΔW_O‖₂ + ‖W_O‖₂‖xΔW_V‖)/α, for the parameters; for Δx "
        "the scores' derivative has to be kept, since query and key have gain 1 and it is of "
        "the same order as the value path."
    ),
    check=check,
    seconds=6.0,
)
