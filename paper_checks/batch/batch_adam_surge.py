from paper_checks.shared.batch import SU
from paper_checks.shared.batch import averages as adam_averages
from paper_checks.shared.bench import Array, Claim, Expr, Finding, Lab, np, once, sp
from paper_checks.shared.record import PROVED, REFUTED, SUPPORTED

CLAIM = Claim(
    name="batch-adam-surge",
    source=f"{SU.format(11301, '2025-09-22')}, 'Two special cases' and 'General analysis'",
    statement="""With c = (1 − β₁)/(1 + β₁) and β = (1 + B_simple/B)^{−1/2} Adam's best rate on
        diagonal curvature is Σ|g_i|/((c/β + 2ββ₁/(1 + β₁)) Σ H_ii): for β₁ > 1/3 it falls
        beyond B = (1 − β₁)/(3β₁ − 1)·B_simple, and for β₁ → 1 at every B. Beyond it learning
        becomes less efficient.""",
    conditions="""algebra under the source's moments; Adam's own averages over 6,000 updates of
        constant mean gradient under normal noise, β₂ = 0.999, 2,000 entries, β₁ of 0 and 0.9""",
    finding="""The maximum is where the source puts it, and it is there in Adam's own averages: at
        β₁ = 0.9 the best rate of one update is highest below B_simple, at β₁ = 0 it rises all
        the way. The last sentence is wrong by the source's own formula: what one update gains
        at its best rate rises with B for every β₁. A rate that has to fall is not a gain that
        falls.""",
    counterexample="""β₁ = 0.9, B from B_simple/17 to infinity: the best rate halves and more, and
        the gain of one update at it rises from 0.5 to 1 of its limit.""",
    corrected="""For β₁ > 1/3 the best rate of one update falls beyond (1 − β₁)/(3β₁ − 1)·B_simple;
        its gain at the best rate never does.""",
    seconds=4,
)


@CLAIM.stated("the maximum is at (1 − β₁)/(3β₁ − 1)·B_simple, for β₁ > 1/3", PROVED)
def maximum(lab: Lab) -> Finding:
    b1, ratio = sp.symbols("beta_1 x", positive=True)  # x = B/B_simple
    beta = 1 / sp.sqrt(1 + 1 / ratio)
    b = sp.Symbol("b", positive=True)
    (best,) = sp.solve(sp.diff(bracket(b, b1), b), b)
    at = sp.simplify(1 / (1 / best**2 - 1))
    left = sp.simplify(at - (1 - b1) / (3 * b1 - 1))
    inside = sp.simplify(beta.subs(ratio, at).subs(b1, sp.Rational(9, 10)))
    return lab.proved(left == 0 and bool(0 < inside < 1), f"β*² = {sp.simplify(best**2)}")


@CLAIM.stated("for β₁ → 1 the best rate falls with B, as √(1 + B_simple/B)", PROVED)
def to_one(lab: Lab) -> Finding:
    b = sp.Symbol("b", positive=True)
    limit = sp.simplify(bracket(b, sp.Integer(1)))
    return lab.proved(sp.simplify(1 / limit - 1 / b) == 0, f"η* ∝ {1 / limit}, b the source's β")


@CLAIM.stated("Adam's own averages surge at β₁ = 0.9 on diagonal curvature", SUPPORTED)
def seen(lab: Lab) -> Finding:
    rates, _ = averages(lab)
    top = int(rates[0.9].argmax())
    fall = float(rates[0.9][top] / rates[0.9][-1])
    rising = bool((np.diff(rates[0.0]) > 0).all())
    return lab.seen(
        0 < top < len(RATIOS) - 1 and fall > 1.5 and rising and RATIOS[top] < 1,
        f"highest at {RATIOS[top]:g} B_simple, {fall:.2f} times the last; β₁ = 0 rises",
    )


@CLAIM.stated("beyond it learning becomes less efficient: an update gains less", REFUTED)
def efficiency(lab: Lab) -> Finding:
    b, b1 = sp.symbols("b beta_1", positive=True)
    gain = b / bracket(b, b1)  # (E[U]·G)²/E[UᵀHU], up to a constant
    slope = sp.diff(gain, b).subs(b1, sp.Rational(9, 10))
    return lab.proved(
        bool(slope.subs(b, sp.Rational(9, 10)) < 0), f"its slope is {sp.simplify(slope)}"
    )


@CLAIM.correction("the gain of one update rises with B at every β₁", PROVED)
def gains(lab: Lab) -> Finding:
    b, b1 = sp.symbols("b beta_1", positive=True)
    slope = sp.diff(b / bracket(b, b1), b)
    # a square in the denominator, and 1 − β₁ > 0 for every average
    left = sp.factor(slope * bracket(b, b1) ** 2 * b / (1 - b1))
    return lab.proved(left.is_positive is True, f"its sign is that of (1 − β₁)·{left}")


@CLAIM.ours("and so it does in Adam's own averages", SUPPORTED)
def gains_seen(lab: Lab) -> Finding:
    _, gained = averages(lab)
    least = {b1: float(np.diff(one).min()) for b1, one in gained.items()}
    return lab.seen(min(least.values()) > 0, f"the smallest step between neighbours: {least}")


RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # B over B_simple


def bracket(b: Expr, b1: Expr) -> Expr:
    """The source's bracket below Σ|g|: what the best rate is one over."""
    return (1 - b1) / (1 + b1) / b + 2 * b1 / (1 + b1) * b


@once
def averages(lab: Lab) -> tuple[dict[float, Array], dict[float, Array]]:
    """By β₁: η* and the gain over RATIOS, of Adam's m/√v at the end, over groups' means."""
    rates, gained = {}, {}
    for b1 in (0.0, 0.9):
        found = []
        for ratio in RATIOS:
            source = np.random.default_rng(lab.seed)
            along, square = [], []
            scale = np.sqrt(ratio)
            drawn = (1 + source.standard_normal(2000) / scale for _ in range(6000))
            for update, (m, v) in enumerate(adam_averages(drawn, b1, 0.999)):
                if update >= 4000 and update % 20 == 0:
                    u = m / np.sqrt(v)
                    along.append(u.mean())
                    square.append((u * u).mean())
            found.append((np.mean(along), np.mean(square)))
        mean, second = np.array(found).T
        rates[b1], gained[b1] = mean / second, mean**2 / second
    return rates, gained
