from paper_checks.shared.bench import Claim, Expr, Finding, Lab, judge, sp
from paper_checks.shared.engine import equal
from paper_checks.shared.record import PROVED, REFUTED, SU

CLAIM = Claim(
    name="su-rezero",
    source=f"{SU}, reader's comment of 2023-07 on ReZero (arXiv 2003.04887)",
    statement="ReZero's scalar a in x + aF(x) is DeepNet's λ/α.",
    conditions="""branches of two matrices, F initialised with gain 1 in ReZero and λ in DeepNet;
        ReLU""",
    finding="""ReZero's scalar equals λ/α in what it does to the matrices' gradients, and λ²/α in
        what it does to the forward pass: no single value plays both parts unless λ = 1, where a =
        1/α. It is Su's second alternative (λ = 1), made trainable and started at 0.""",
    counterexample="λ = 1/2, α = 1: a = λ/α = 1/2 doubles the branch weight λ²/α = 1/4.",
    corrected="""a = λ²/α for the branch weight, a = λ/α for the gradients; both only for λ = 1, a =
        1/α.""",
)


@judge
def agree(lab: Lab, which: int, power: int, what: str = "") -> Finding:
    """Whether a = λ^power/α alone makes one of the quotients 1."""
    *both, (a, lam, alpha) = quotients()
    found = sp.solve(both[which] - 1, a)
    holds = len(found) == 1 and equal(found[0], lam**power / alpha)
    return lab.proved(holds, f"{what}a = {found}")


CLAIM.stated("a = λ/α gives the same branch weight", REFUTED)(
    agree(0, 1, "the branch weights agree for ")
)
CLAIM.stated("a = λ/α gives the same gradient of the matrices", PROVED)(
    agree(1, 1, "the gradients agree for ")
)
CLAIM.correction("a = λ²/α gives the same branch weight", PROVED)(agree(0, 2))


@CLAIM.correction("both agree only for λ = 1, a = 1/α", PROVED)
def both(lab: Lab) -> Finding:
    weight, slope, (a, lam, alpha) = quotients()
    found = sp.solve([weight - 1, slope - 1], [a, lam], dict=True)
    return lab.proved(found == [{a: 1 / alpha, lam: 1}], f"solved: {found}")


def quotients() -> tuple[Expr, Expr, tuple[Expr, ...]]:
    """DeepNet's branch over ReZero's, its gradient over ReZero's, and the symbols a, λ, α.

    One active unit, whose matrices' entries are w = λu with u of gain 1.
    """
    x, w1, w2, lam, alpha, a = sp.symbols("x w1 w2 lambda alpha a", positive=True)
    rezero, deepnet = a * x * w1 * w2, x * w1 * w2 / alpha
    ones, gains = {w1: 1, w2: 1}, {w1: lam, w2: lam}
    weight, slope = (
        sp.simplify(own.subs(gains) / theirs.subs(ones))
        for own, theirs in ((deepnet, rezero), (sp.diff(deepnet, w1), sp.diff(rezero, w1)))
    )
    return weight, slope, (a, lam, alpha)
