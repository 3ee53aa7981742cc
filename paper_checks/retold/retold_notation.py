"""⟨·,·⟩ is multiplication by the chain rule, sign is the indicator function, ‖x‖² is O(n)."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import RETOLD
from paper_checks.shared.verdicts import proved

INDICATOR, SIGN, BRACKET, LENGTH = (
    "with the indicator function for sign, ΔL = −η‖∇L‖₁",
    "with the sign function it does",
    "⟨∇L, Δθ⟩ is the inner product: the derivative of L along Δθ",
    "‖x‖² of n entries is of order n, given entries of order one",
)


def check(context: Context) -> tuple[Finding, ...]:
    """A quadratic loss of three entries differentiated along each reading of the update."""
    import sympy as sp

    eta = sp.Symbol("eta", positive=True)
    theta = sp.Matrix(sp.symbols("t1:4", real=True))
    hessian = sp.Matrix([[2, 1, 0], [1, 3, -1], [0, -1, 4]])
    loss = (theta.T * hessian * theta)[0] / 2
    here = dict(zip(theta, (1, -2, 3), strict=True))
    gradient = (hessian * theta).subs(here)  # (0, −8, 14)

    def slope(direction: sp.Matrix) -> sp.Expr:
        moved = {t: here[t] + eta * d for t, d in zip(theta, direction, strict=True)}
        return sp.diff(loss.subs(moved, simultaneous=True), eta).subs(eta, 0)

    taxicab = sum(abs(g) for g in gradient)
    signed = slope(-gradient.applyfunc(sp.sign))
    indicated = slope(-gradient.applyfunc(lambda g: sp.Integer(1 if g > 0 else 0)))
    direction = sp.Matrix([2, -1, 5])
    n = sp.Symbol("n", positive=True)
    length = sp.Sum(sp.Integer(1), (sp.Symbol("i"), 1, n)).doit()
    evidence = {"gradient": list(gradient), "along sign": signed, "along the indicator": indicated}
    return (
        proved(INDICATOR, indicated == -taxicab, f"it is {indicated}, not {-taxicab}", **evidence),
        proved(SIGN, signed == -taxicab, f"it is {signed}"),
        proved(BRACKET, slope(direction) == gradient.dot(direction), "differentiated along Δθ"),
        proved(LENGTH, sp.limit(length / n, n, sp.oo) == 1, "n terms of order one"),
    )


CLAIM = Claim(
    name="retold-notation",
    source=f"{RETOLD}, §1 and §6, grey boxes",
    statement="⟨·,·⟩ stands for multiplication by the chain rule; sign is the indicator "
    "function; ‖x‖² is O(n).",
    conditions="any differentiable loss; here a quadratic one in exact arithmetic",
    recorded=(
        Ruling(INDICATOR, Verdict.REFUTED),
        Ruling(SIGN, Verdict.PROVED, corrected=True),
        Ruling(BRACKET, Verdict.PROVED),
        Ruling(LENGTH, Verdict.PROVED),
    ),
    finding=(
        "A slip of the retelling that is not in Su's post: sign takes the values −1, 0 and 1. "
        "With the "
        "indicator function of g > 0 the negative entries would not be stepped, and the "
        "increment would be "
        "the sum of the positive ones. The bracket is an inner product, which the chain rule "
        "produces."
    ),
    counterexample="g = (1, −1): the indicator gives ⟨g, 1[g > 0]⟩ = 1, while ‖g‖₁ = 2.",
    corrected="sign(g) is −1, 0 or 1 by the sign of g, so that ⟨g, sign(g)⟩ = ‖g‖₁.",
    check=check,
    seconds=0.3,
)
