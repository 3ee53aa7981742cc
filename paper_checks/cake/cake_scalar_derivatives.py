"""The derivatives of the scalar sublayer and their leading orders."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

EXACT, SIGNED, LEADING, NORMALISED, CORRECTED = (
    "exact derivatives, I = 1",
    "exact derivatives with the random sign",
    "leading orders as r = vw/α → 0",
    "the same at any r, as the sign Θ= suggests",
    "leading order times (I − r)/(1 + r²)^{3/2}",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Difference quotients in 60 digits against the printed formulas, and limits in r."""
    import sympy as sp

    from paper_checks.shared.verdicts import proved

    x, v, w, a, r = sp.symbols("x v w alpha r", positive=True)

    def f(sign: int) -> sp.Expr:
        return (a + sign * v * w) / sp.sqrt(a**2 + v**2 * w**2) * x

    printed = {
        s: {
            v: a * x * (s * a - v * w) / (a**2 + v**2 * w**2) ** sp.Rational(3, 2) * w,
            w: a * x * (s * a - v * w) / (a**2 + v**2 * w**2) ** sp.Rational(3, 2) * v,
        }
        for s in (1, -1)
    }
    for s in (1, -1):
        printed[s][x] = (a + s * v * w) / sp.sqrt(a**2 + v**2 * w**2)
    worst = {s: max(_distance(f(s), g, k) for k, g in printed[s].items()) for s in (1, -1)}
    limits = {
        "x": sp.limit(printed[1][x].subs(v, r * a / w), r, 0),
        **{
            str(k): sp.limit(sp.simplify((printed[1][k] / (x * o / a)).subs(v, r * a / w)), r, 0)
            for k, o in ((v, w), (w, v))
        },
    }
    ratio = sp.simplify((printed[1][v] / (x * w / a)).subs(v, r * a / w))
    signed = [
        sp.simplify(
            (printed[s][k] / (x * o / a)).subs(v, r * a / w)
            - (s - r) / (1 + r**2) ** sp.Rational(3, 2)
        )
        for s in (1, -1)
        for k, o in ((v, w), (w, v))
    ]
    at_one = sp.limit(ratio, r, 1, "-")
    inside = ratio.subs(r, sp.Rational(9, 10) ** 2 / sp.Rational(11, 10))
    return (
        proved(
            EXACT,
            worst[1] < 1e-20,
            f"largest relative difference from a central difference quotient {worst[1]:.1e}",
        ),
        proved(SIGNED, worst[-1] < 1e-20, f"with I = −1 the quotient agrees to {worst[-1]:.1e}"),
        proved(
            LEADING,
            all(limit == 1 for limit in limits.values()),
            f"ratios to the leading orders tend to {limits}",
        ),
        proved(
            NORMALISED,
            at_one != 0,
            (
                f"as r → 1 (plain Post-LN, α = v = w = 1) the exact ∂f/∂v over the leading order "
                f"tends to {at_one}; at v = w = 0.9, α = 1.1 it is {float(inside):.3f}"
            ),
        ),
        proved(CORRECTED, not any(signed), "the ratio of exact to leading order, for both signs"),
    )


def _distance(f, printed, variable):  # type: ignore[no-untyped-def]
    """The largest relative gap to a central difference at three rational points."""
    import sympy as sp

    h = sp.Rational(1, 10**15)
    gaps = []
    for k in (1, 2, 3):
        point = {
            s: sp.Rational(3 + k * i, 5 + i * i + k)
            for i, s in enumerate(sorted(f.free_symbols, key=str))
        }
        up, down = (f.subs({**point, variable: point[variable] + e}) for e in (h, -h))
        quotient = sp.N((up - down) / (2 * h), 60)
        value = sp.N(printed.subs(point), 60)
        gaps.append(float(abs(quotient / value - 1)))
    return max(gaps)


CLAIM = Claim(
    name="cake-scalar-derivatives",
    source=(
        "Transformer layer cake (AI推公式), §4.2, the two displayed derivatives, and §4.3, "
        "supplement (random sign I); DeepNet, arXiv 2203.00555, Theorem 4.2"
    ),
    statement=(
        "f = (α + Ivw)x/√(α² + v²w²): ∂f/∂x = (α + vw)/√(α² + v²w²) ≐ 1, "
        "(∂f/∂v, ∂f/∂w) = αx(Iα − vw)/(α² + v²w²)^{3/2}·(w, v) ≐ (Ix/α)(w, v)."
    ),
    conditions="scalars x, v, w, α > 0; leading order means r = vw/α → 0",
    recorded=(
        Ruling(EXACT, Verdict.PROVED),
        Ruling(SIGNED, Verdict.PROVED),
        Ruling(LEADING, Verdict.PROVED),
        Ruling(NORMALISED, Verdict.REFUTED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "The printed derivatives are right for both signs, and the added last "
        "approximations hold as r = vw/α → 0, "
        "which every depth-scaled rule provides. They are not of the same order at every "
        "r: at α = v = w = 1, plain "
        "Post-LN, the derivatives in v and w vanish exactly, because numerator and "
        "normaliser grow together. The exact "
        "factor is (I − r)/(1 + r²)^{3/2}: for I = −1 the gradient is larger than its "
        "leading order, for I = 1 smaller."
    ),
    counterexample=(
        "x = 1, v = w = 0.9, α = 1.1 (inside the source's v, w < 1 < α): ∂f/∂v = 0.11, the "
        "leading order says 0.82; at α = v = w = 1 it is 0."
    ),
    corrected="(∂f/∂v, ∂f/∂w) = (x/α)(w, v)·(I − r)/(1 + r²)^{3/2} with r = vw/α.",
    check=check,
    seconds=1.0,
)
