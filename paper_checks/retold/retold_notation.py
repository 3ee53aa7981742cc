from __future__ import annotations

from paper_checks.shared.bench import Claim, Expr, Finding, Lab, sp
from paper_checks.shared.record import PROVED, REFUTED, RETOLD

CLAIM = Claim(
    name="retold-notation",
    source=f"{RETOLD}, §1 and §6, grey boxes",
    statement="""⟨·,·⟩ stands for multiplication by the chain rule; sign is the indicator function;
        ‖x‖² is O(n).""",
    conditions="any differentiable loss; here a quadratic one in exact arithmetic",
    finding="""A slip of the retelling that is not in Su's post: sign takes the values −1, 0 and 1.
        With the indicator function of g > 0 the negative entries would not be stepped, and the
        increment would be the sum of the positive ones. The bracket is an inner product, which the
        chain rule produces.""",
    counterexample="g = (1, −1): the indicator gives ⟨g, 1[g > 0]⟩ = 1, while ‖g‖₁ = 2.",
    corrected="sign(g) is −1, 0 or 1 by the sign of g, so that ⟨g, sign(g)⟩ = ‖g‖₁.",
)

HESSIAN, HERE = ((2, 1, 0), (1, 3, -1), (0, -1, 4)), (1, -2, 3)


@CLAIM.stated("with the indicator function for sign, ΔL = −η‖∇L‖₁", REFUTED)
def indicator(lab: Lab) -> Finding:
    stepped = gradient().applyfunc(lambda g: sp.Integer(1 if g > 0 else 0))
    found, wanted = slope(-stepped), -gradient().norm(1)
    return lab.proved(found == wanted, f"it is {found}, not {wanted}", gradient=list(gradient()))


@CLAIM.correction("with the sign function it does", PROVED)
def sign(lab: Lab) -> Finding:
    found = slope(-gradient().applyfunc(sp.sign))
    return lab.proved(found == -gradient().norm(1), f"it is {found}")


@CLAIM.stated("⟨∇L, Δθ⟩ is the inner product: the derivative of L along Δθ", PROVED)
def bracket(lab: Lab) -> Finding:
    direction = sp.Matrix([2, -1, 5])
    return lab.proved(slope(direction) == gradient().dot(direction), "differentiated along Δθ")


@CLAIM.stated("‖x‖² of n entries is of order n, given entries of order one", PROVED)
def length(lab: Lab) -> Finding:
    n = sp.Symbol("n", positive=True)
    square = sp.Sum(sp.Integer(1), (sp.Symbol("i"), 1, n)).doit()
    return lab.proved(sp.limit(square / n, n, sp.oo) == 1, "n terms of order one")


def gradient() -> sp.Matrix:
    """The gradient of θᵀHθ/2 at the point: (0, −8, 14)."""
    return sp.Matrix(HESSIAN) * sp.Matrix(HERE)


def slope(direction: sp.Matrix) -> Expr:
    """The derivative of the loss along a direction, differentiated there."""
    eta = sp.Symbol("eta")
    at = sp.Matrix(HERE) + eta * direction
    return sp.diff((at.T * sp.Matrix(HESSIAN) * at)[0] / 2, eta).subs(eta, 0)
