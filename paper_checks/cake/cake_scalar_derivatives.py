from paper_checks.shared.bench import Claim, Expr, Finding, Lab, judge, sp
from paper_checks.shared.record import CAKE, DEEPNET, PROVED, REFUTED

CLAIM = Claim(
    name="cake-scalar-derivatives",
    source=f"""{CAKE}, §4.2, the two displayed derivatives, and §4.3, supplement (random sign I);
        {DEEPNET}, Theorem 4.2""",
    statement="""f = (α + Ivw)x/√(α² + v²w²): ∂f/∂x = (α + vw)/√(α² + v²w²) ≐ 1, (∂f/∂v, ∂f/∂w) =
        αx(Iα − vw)/(α² + v²w²)^{3/2}·(w, v) ≐ (Ix/α)(w, v).""",
    conditions="scalars x, v, w, α > 0; leading order means r = vw/α → 0",
    finding="""The printed derivatives are right for both signs, and the last approximations, which
        the layer cake adds, hold as r = vw/α → 0, which every depth-scaled rule provides. Read as
        an order at every r with v, w < 1 < α they would not hold: towards α = v = w = 1, plain
        Post-LN, the derivatives in v and w vanish, because numerator and normaliser grow together.
        The exact factor is (I − r)/(1 + r²)^{3/2}: for I = −1 the gradient is larger than its
        leading order, for I = 1 smaller.""",
    counterexample="""x = 1, v = w = 0.9, α = 1.1 (inside the source's v, w < 1 < α): ∂f/∂v = 0.11,
        the leading order says 0.82; at α = v = w = 1 it is 0.""",
    corrected="(∂f/∂v, ∂f/∂w) = (x/α)(w, v)·(I − r)/(1 + r²)^{3/2} with r = vw/α.",
)
NAMES = ("x", "v", "w")


@judge
def exact(lab: Lab, sign: int) -> Finding:
    """f differentiated."""
    symbols = {name: sp.Symbol(name, positive=True) for name in NAMES}
    gaps = [sp.diff(sublayer(sign), s) - printed(name, sign) for name, s in symbols.items()]
    return lab.proved(not any(map(sp.simplify, gaps)), f"differentiated, with I = {sign}")


CLAIM.stated("exact derivatives, I = 1", PROVED)(exact(1))
CLAIM.stated("exact derivatives with the random sign", PROVED)(exact(-1))


@CLAIM.stated("leading orders as r = vw/α → 0", PROVED)
def leading(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    limits = {name: sp.limit(over_leading(name, 1), r, 0) for name in NAMES}
    because = f"ratios to the leading orders tend to {limits}"
    return lab.proved(set(limits.values()) == {1}, because)


@CLAIM.ours("the leading orders at any r with v, w < 1 < α", REFUTED)
def at_any_r(lab: Lab) -> Finding:
    r, ratio = sp.Symbol("r", positive=True), over_leading("v", 1)
    limit, inside = sp.limit(ratio, r, 1, "-"), float(ratio.subs(r, sp.Rational(81, 110)))
    what = f"as r → 1 the exact ∂f/∂v over its leading order tends to {limit}"
    return lab.proved(limit != 0, f"{what}; at v = w = 0.9, α = 1.1 it is {inside:.3f}")


@CLAIM.correction("leading order times (I − r)/(1 + r²)^{3/2}", PROVED)
def factor(lab: Lab) -> Finding:
    r = sp.Symbol("r", positive=True)
    gaps = [
        sp.simplify(over_leading(name, sign) - (sign - r) / (1 + r**2) ** sp.Rational(3, 2))
        for name in ("v", "w")
        for sign in (1, -1)
    ]
    return lab.proved(not any(gaps), "the ratio of exact to leading order, for both signs")


def sublayer(sign: int) -> Expr:
    """f."""
    x, v, w, a = sp.symbols("x v w alpha", positive=True)
    return (a + sign * v * w) / sp.sqrt(a**2 + v**2 * w**2) * x


def printed(name: str, sign: int) -> Expr:
    """∂f/∂name as printed."""
    x, v, w, a = sp.symbols("x v w alpha", positive=True)
    if name == "x":
        return sublayer(sign) / x
    other = w if name == "v" else v
    return a * x * (sign * a - v * w) / (a**2 + v**2 * w**2) ** sp.Rational(3, 2) * other


def over_leading(name: str, sign: int) -> Expr:
    """The printed derivative over its leading order without I, in r = vw/α."""
    x, v, w, a, r = sp.symbols("x v w alpha r", positive=True)
    order = {"x": sp.Integer(1), "v": x * w / a, "w": x * v / a}[name]
    return sp.simplify((printed(name, sign) / order).subs(v, r * a / w))
