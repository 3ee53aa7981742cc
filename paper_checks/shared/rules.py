"""The rules of Su's post, and the conditions that it solves for them."""

from __future__ import annotations

from paper_checks.shared.later import sp

# Transcribed from Su's table; what the engine derives is compared with these in su-table.
PUBLISHED = {
    "sgd": ("(2*N)**(1/4)", "(2*N)**(-1/4)"),
    "adam": ("(2*N)**(1/2)", "(2*N)**(-1/2)"),
    "lamb": ("1", "(2*N)**(-1/2)"),
}
# The degrees of Δθ in the gradient and in the weight, and the choice on the balanced curve.
CONDITIONS = {
    "sgd": (1, 0, "symmetric"),
    "adam": (0, 0, "symmetric"),
    "lamb": (0, 1, "unit-residual"),
}

SCALED = ("value", "output", "fc1", "fc2")  # the matrices that λ scales


def balanced(of_gradient: int, of_weight: int, closure: str) -> tuple[sp.Expr, sp.Expr]:
    """α and λ by Su's own conditions, as powers of 2N; nothing of the engine is used.

    With gradients O(λ/α) and weights O(λ), ΔL = ⟨∇L, Δθ⟩ over 2N branches is of order one where
    2N (λ/α)^{p+1} λ^q = 1: linear in the exponents of α and λ, and so is the closure.
    """
    alpha, lam = sp.symbols("alpha lambda")  # exponents of 2N
    curve = 1 + (of_gradient + 1) * (lam - alpha) + of_weight * lam
    chosen = {"symmetric": alpha + lam, "unit-residual": alpha, "unit-init": lam}[closure]
    powers = sp.solve([curve, chosen], [alpha, lam])
    sublayers = 2 * sp.Symbol("N", positive=True)
    return sublayers ** powers[alpha], sublayers ** powers[lam]
