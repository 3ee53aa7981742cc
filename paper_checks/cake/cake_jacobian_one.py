"""∂f/∂x ≐ 1 over all 2N factors."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

ONE, ALL, GROWTH, REAL, PLAIN_POST = (
    "one factor, as r → 0",
    "2N factors of the scalar sublayer as printed (all signs positive), at the constants",
    "their product is exp((2N)^{1/4}/2) to leading order",
    "real DeepNorm stacks: a random change of the input reaches the output at its own size",
    "real plain Post-LN stacks: a change of single tokens shrinks",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The logarithm of the product in N, and finite differences through real stacks."""
    import sympy as sp

    from deepnet_theory.spec.selection import Selection
    from paper_checks.shared.streams import (
        DEEPNORM,
        PLAIN,
        mean,
        np,
        power,
        settings,
        through_stack,
    )
    from paper_checks.shared.verdicts import at_most, exponent, proved

    N, r, u = sp.symbols("N r u", positive=True)
    factor = (1 + r) / sp.sqrt(1 + r**2)
    # the rule's r in u = (2N)^{-1/4}: β² = u²/2 and α = 1/u, so r = u³/2 and 2N = u^{-4}
    beta2, alpha = ((8 * N) ** sp.Rational(-1, 4)) ** 2, (2 * N) ** sp.Rational(1, 4)
    same = sp.simplify((beta2 / alpha).subs(N, u**-4 / 2) - u**3 / 2) == 0
    logarithm = sp.log(factor.subs(r, u**3 / 2)) * u**-4
    growth = sp.limit(logarithm * u * 2, u, 0)
    at = {
        n: float(factor.subs(r, beta2.subs(N, n) / alpha.subs(N, n)) ** (2 * n))
        for n in (10, 100, 1000)
    }
    depths = context.pick((4, 8, 16, 32), (8, 16, 32, 64, 128))
    rows = {}
    for data in context.pick(("text",), ("text", "gaussian:0", "gaussian:0.5")):
        given = settings(context, data=data, dtype="float64", seeds=32)
        for name, rule in (("DeepNorm", DEEPNORM), ("plain", PLAIN)):
            for common in context.pick((False,), (False, True)):
                moved = f"{data}, tokens moved {'together' if common else 'independently'}"
                rows[name, moved] = through_stack(
                    Selection(optimizer="sgd"), rule, depths, given, common
                )
    deep = {k[1]: power(depths, v) for k, v in rows.items() if k[0] == "DeepNorm"}
    plain_depth = 32
    plain = {
        k[1]: mean(np.log(v[:, depths.index(plain_depth)]))
        for k, v in rows.items()
        if k[0] == "plain"
    }
    table = {f"{n}, {d}": v.mean(0).tolist() for (n, d), v in rows.items()}
    return (
        proved(ONE, sp.limit(factor, r, 0) == 1, "limit of (1 + r)/√(1 + r²)"),
        proved(
            ALL,
            sp.limit(logarithm, u, 0, "+").is_finite is not False,
            f"the product is {at} at N = 10, 100, 1000 and grows without bound",
        ),
        proved(
            GROWTH,
            bool(same and growth == 1),
            f"log of the product over (2N)^{{1/4}}/2 tends to {growth}",
        ),
        exponent(
            REAL,
            deep,
            0.0,
            (("the scalar product, one sign, from 8 layers to 128", _scalar_slope()),),
            what="exponent of ‖ΔF‖/‖Δx‖ in N",
            depths=list(depths),
            ratios=table,
        ),
        at_most(
            PLAIN_POST,
            {k: v for k, v in plain.items() if "independently" in k},
            -0.05,  # below 1 by more than the margin
            f"mean of log ‖ΔF‖/‖Δx‖ at N = {plain_depth}, plain Post-LN",
            tolerance=0.0,
            geometric_means={k: float(np.exp(v.estimate)) for k, v in plain.items()},
        ),
    )


def _scalar_slope() -> float:
    """The log–log slope from N = 8 to 128 of the product of the printed scalar factors."""
    import math

    def log(n: int) -> float:
        r = (8 * n) ** -0.5 * (2 * n) ** -0.25
        return 2 * n * (math.log1p(r) - math.log1p(r * r) / 2)

    return (log(128) - log(8)) / math.log(128 / 8)


CLAIM = Claim(
    name="cake-jacobian-one",
    source="Transformer layer cake (AI推公式), §4.2, ∂f_l/∂x_l ≐ 1 and the recursion that follows",
    statement=(
        "∂f_l/∂x_l = (α + v_l w_l)/√(α² + v_l²w_l²) ≐ 1, used for each of the 2N factors of "
        "the recursion."
    ),
    conditions=(
        "scalar sublayers at α = (2N)^{1/4}, β = (8N)^{−1/4}; torch encoders of 4 to 128 "
        "layers, text and Gaussian tokens of correlation 0 and 0.5"
    ),
    recorded=(
        Ruling(ONE, Verdict.PROVED),
        Ruling(ALL, Verdict.REFUTED),
        Ruling(GROWTH, Verdict.PROVED, corrected=True),
        Ruling(REAL, Verdict.SUPPORTED, corrected=True),
        Ruling(PLAIN_POST, Verdict.SUPPORTED),
    ),
    finding=(
        "One factor is 1 to leading order, 2N of them are not: with all signs positive, as "
        "the scalar sublayer is printed, the product at DeepNorm's own constants is "
        "exp((2N)^{1/4}/2) to leading order, 6.4 at 100 layers and 28 at 1,000. Real stacks behave "
        "otherwise, because their branches point in independent directions: a random change of "
        "the input reaches the output at its own size at every depth (exponent 0 within 0.013). "
        "In plain Post-LN it does not: of a change of single tokens 0.28 to 0.43 (geometric mean) "
        "is left after 32 layers, since attention averages it away."
    ),
    counterexample=(
        "N = 1000 at its own constants: the 2000 factors multiply to 28, not 1; N = 10: 2.7."
    ),
    corrected=(
        "One factor is 1 + r + O(r²): with equal signs the product is exp((2N)^{1/4}/2); "
        "with independent directions, as in real stacks, its root mean square is 1."
    ),
    check=check,
    seconds=2.5,
    full_seconds=38,
)
