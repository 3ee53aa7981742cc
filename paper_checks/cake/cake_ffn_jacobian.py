from collections import defaultdict
from itertools import product

from paper_checks.shared.bench import Claim, Expr, Finding, Lab, judge, sp
from paper_checks.shared.gaussian import FeedForward
from paper_checks.shared.record import CAKE, PROVED

CLAIM = Claim(
    name="cake-ffn-jacobian",
    source=f"{CAKE}, §5.1, the four displayed partial derivatives",
    statement="""∂z_i/∂x_j = δ_ij α + Σ_k w_jk v_ki R_k, ∂z_i/∂v_ki = Σ_j x_j w_jk R_k, ∂z_i/∂v_kj =
        0 (j ≠ i), ∂z_i/∂w_jk = x_j v_ki R_k.""",
    conditions="z = αx + ReLU(xW)V away from the kinks of the activation",
    finding="""All four derivatives are exact wherever no hidden unit sits at its kink: R_k does not
        change under a small move, so treating it as a constant is right for derivatives, whatever
        one thinks of treating it as a coin.""",
)
SIZES = ((1, 2), (2, 1), (2, 3), (3, 2))  # d and m


@judge
def agreement(lab: Lab, name: str) -> Finding:
    """The derivative of z with R_k a constant, entry by entry, and the printed formula."""
    apart = [d - printed for size in SIZES for d, printed in derivatives(*size)[name]]
    because = f"differentiated at (d, m) = {SIZES}: no small move changes R_k off the kinks"
    return lab.proved(not any(map(sp.expand, apart)), because)


CLAIM.stated("∂z_i/∂x_j = δ_ij α + Σ_k w_jk v_ki R_k", PROVED)(agreement("x"))
CLAIM.stated("∂z_i/∂v_ki = Σ_j x_j w_jk R_k", PROVED)(agreement("V"))
CLAIM.stated("∂z_i/∂w_jk = x_j v_ki R_k", PROVED)(agreement("W"))
CLAIM.stated("∂z_i/∂v_kj = 0 for j ≠ i", PROVED)(agreement("V across"))


def derivatives(d: int, m: int) -> dict[str, list[tuple[Expr, Expr]]]:
    """Each derivative of z = αx + (R ⊙ xW)V with its printed formula."""
    alpha, f = sp.Symbol("alpha"), FeedForward(d, m)
    x, R, W, V = f.x, f.R, f.W, f.V
    z, found = alpha * x + f.hidden(x) * V, defaultdict(list)
    for i, j, k in product(range(d), range(d), range(m)):
        through = sum(W[j, n] * V[n, i] * R[n] for n in range(m))
        inner = sum(x[n] * W[n, k] * R[k] for n in range(d))
        found["x"].append((z[i].diff(x[j]), alpha * int(i == j) + through))
        found["W"].append((z[i].diff(W[j, k]), x[j] * V[k, i] * R[k]))
        found["V" if i == j else "V across"].append((z[i].diff(V[k, j]), inner * int(i == j)))
    return found
