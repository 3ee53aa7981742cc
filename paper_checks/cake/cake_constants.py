from paper_checks.shared.bench import Claim, Expr, Finding, Lab, sp
from paper_checks.shared.engine import derive, equal, formula
from paper_checks.shared.record import CAKE, DEEPNET, PROVED
from paper_checks.shared.stacks import DEEPNORM

CLAIM = Claim(
    name="cake-constants",
    source=f"{CAKE}, §4.3, last displayed equations; {DEEPNET}, §4.1",
    statement="2N(v² + w²)/α² = 1 is satisfied by α = (2N)^{1/4}, v = w = β = (8N)^{−1/4}.",
    conditions="N ≥ 1 encoder (or decoder-only) layers of two sublayers, two scaled matrices each",
    finding="""With v = w = β and the closure √(v² + w²) = 1/α, which the paper does not write and
        the layer cake guesses, the published constants are the only solution. The balance alone
        fixes nothing but the curve β = α/(2√N): α = 1, β = 1/(2√N) and α = 2√N, β = 1 lie on it
        too. The paper's simplifying assumption v, w < 1 < α holds at its own constants for every N
        ≥ 1.""",
    corrected="""2N(v² + w²)/α² = 1 and √(v² + w²) = 1/α together have the one solution α =
        (2N)^{1/4}, β = (8N)^{−1/4}; without the second the solutions are β = α/(2√N).""",
)


@CLAIM.stated("with v = w = β and the closure √(v² + w²) = 1/α", PROVED)
def closed(lab: Lab) -> Finding:
    alpha, beta = published()
    entry = derive(optimizer="sgd", method="lemma").rule.entries[0]
    engine = equal(formula(entry.alpha), alpha) and equal(formula(entry.beta), beta)
    by_hand = balance(alpha, beta) == 1 and sp.simplify(sp.sqrt(2) * beta * alpha) == 1
    # β²/α² and αβ are given: the exponents are a regular matrix, so the solution is one
    one = sp.Matrix([[-2, 2], [1, 1]]).det() != 0
    return lab.proved(
        by_hand and one and engine,
        "substituted back, both equations hold; the linear system in logarithms is regular; the "
        "engine derives the same",
    )


@CLAIM.correction("the balance leaves the curve β = α/(2√N), one point a choice", PROVED)
def curve(lab: Lab) -> Finding:
    root = 2 * sp.sqrt(formula("N"))
    points = [(alpha, alpha / root) for alpha in (formula("1"), root, published()[0])]
    return lab.proved(all(balance(*p) == 1 for p in points), "α = 1, 2√N and (2N)^{1/4} put in")


@CLAIM.stated("v, w < 1 and α > 1, the third simplification, at the constants", PROVED)
def signs(lab: Lab) -> Finding:
    N, (alpha, beta) = formula("N"), published()
    at_one = alpha.subs(N, 1) > 1 > beta.subs(N, 1)
    growing, falling = (sp.simplify(sp.diff(sp.log(e), N)) for e in (alpha, beta))
    because = "α > 1 and β < 1 at N = 1; α grows with N, β falls"
    return lab.proved(bool(at_one and growing.is_positive and falling.is_negative), because)


def published() -> tuple[Expr, Expr]:
    """α and β of the paper."""
    return formula(DEEPNORM.alpha), formula(DEEPNORM.beta)


def balance(alpha: Expr, beta: Expr) -> Expr:
    """2N(v² + w²)/α² with v = w = β."""
    return sp.simplify(2 * formula("N") * 2 * beta**2 / alpha**2)
