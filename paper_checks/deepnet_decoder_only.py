"""Decoder-only: (2M)^{1/4}, (8M)^{−1/4}."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

SOLVED, SWIGLU, CAUSAL, CORRECTED = (
    "two sublayers a layer, two scaled matrices each",
    "a gated feed-forward (three scaled matrices) takes other constants",
    "the causal mask changes nothing: ‖ΔF‖/η has exponent 0 in M",
    "gated feed-forward: β^4/α² shares of the sublayer, α and β of its own",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Balance and closure solved in logarithms; the engine; SGD steps of causal stacks."""
    import sympy as sp

    from deepnet_theory.spec.rule import own_rule
    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derive import derive
    from paper_checks._cake_measure import power, settings, updates
    from paper_checks._verdicts import exponent, proved

    M = sp.Symbol("M", positive=True)
    # 2M·2b²/a² = 1 and √2 b a = 1: multiply and divide the logarithms
    solution = sp.Matrix([[-2, 2], [1, 1]]).LUsolve(sp.Matrix([-sp.log(4 * M), -sp.log(2) / 2]))
    found = [sp.exp(sp.expand_log(e, force=True)) for e in solution]
    claimed = [(2 * M) ** sp.Rational(1, 4), (8 * M) ** sp.Rational(-1, 4)]
    same = all(
        sp.simplify(sp.expand_log(sp.log(f / c), force=True)) == 0
        for f, c in zip(found, claimed, strict=True)
    )
    entry = derive(Selection(optimizer="sgd", stack="decoder", method="lemma")).rule.entries[0]
    engine = all(
        sp.simplify(sp.sympify(t, locals={"M": M}) / c) == 1
        for t, c in zip((entry.alpha, entry.beta), claimed, strict=True)
    )
    gated = {
        e.sublayer: e
        for e in derive(
            Selection(
                optimizer="sgd", stack="decoder", method="lemma", layer="attention,ffn:swiglu"
            )
        ).rule.entries
    }
    texts = {k: (e.alpha, e.beta) for k, e in gated.items()}
    swiglu = gated.get("ffn-swiglu", gated.get("*"))
    same_gated = swiglu is not None and all(
        sp.simplify(sp.sympify(t, locals={"M": M}) / c) == 1
        for t, c in zip((swiglu.alpha, swiglu.beta), claimed, strict=True)
    )
    ga, gb = (sp.sympify(t, locals={"M": M}) for t in (swiglu.alpha, swiglu.beta))
    # three matrices: each sublayer's share 3 b⁴/a² is 1/(2M), and √3 b a = 1
    fits = sp.simplify(3 * gb**4 / ga**2 * 2 * M) == 1 and sp.simplify(sp.sqrt(3) * gb * ga) == 1
    depths = context.pick((8, 16, 32, 64), (8, 16, 32, 64, 128))
    rule = own_rule(("decoder",), "(2*M)**(1/4)", "(8*M)**(-1/4)")
    causal = Selection(optimizer="sgd", stack="decoder")
    slopes = {
        data: power(depths, updates(causal, rule, depths, settings(context, seeds=16, data=data)))
        for data in context.pick(("text",), ("text", "gaussian:0", "gaussian:0.5"))
    }
    return (
        proved(SOLVED, bool(same and engine), "solved in logarithms, and derived by the engine"),
        proved(SWIGLU, not (bool(same_gated)), f"the balance gives {texts}"),
        exponent(
            CAUSAL,
            slopes,
            0.0,
            (("Adam's rule", -0.5), ("no rule", 1.0)),
            what="exponent of ‖ΔF‖/η in M",
            depths=list(depths),
        ),
        proved(CORRECTED, bool(fits), "3β⁴/α² = 1/(2M) and √3 β = 1/α hold for the engine's rule"),
    )


CLAIM = Claim(
    name="deepnet-decoder-only",
    source="DeepNet, arXiv 2203.00555, Figure 2 (b), §4.3 and Appendix C",
    statement="Decoder-only stacks of M layers take α = (2M)^{1/4}, β = (8M)^{−1/4}.",
    conditions="SGD, closure √(v² + w²) = 1/α; built causal stacks of 8 to 128 layers, text "
    "and Gaussian tokens",
    recorded=(
        Ruling(SOLVED, Verdict.PROVED),
        Ruling(SWIGLU, Verdict.PROVED),
        Ruling(CAUSAL, Verdict.SUPPORTED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "Solved in logarithms, the balance and the closure have the one solution (2M)^{1/4}, "
        "(8M)^{−1/4}, and causal stacks show a constant update under it. It is a statement "
        "on branches of two scaled matrices. A gated feed-forward has three, whose "
        "derivatives are of size β²/α: the same conditions give (2M/3)^{1/6} and "
        "(18M)^{−1/6} there."
    ),
    corrected=(
        "α = (2M)^{1/4}, β = (8M)^{−1/4} for branches of two scaled matrices; a gated "
        "feed-forward takes the α and β that solve 3β⁴/α² = 1/(2M), √3 β = 1/α."
    ),
    check=check,
    seconds=4.0,
)
