from itertools import product

from paper_checks.shared.bench import Claim, Finding, Lab, Tensor, judge, once, torch
from paper_checks.shared.engine import holds
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
PRINTED = ("input", "second-matrix", "first-matrix", "across")


@judge
def agreement(lab: Lab, step: str, printed: str = "") -> Finding:
    """The engine's step, and the printed formula against torch's own derivative."""
    gap = gaps(lab)[printed or step]
    return lab.proved(
        holds("moments", f"ffn-derivative-{step}") and gap < 1e-12,
        f"derived with R_k a constant; with the true ReLU torch's derivative differs by {gap:.1e}",
    )


CLAIM.stated("∂z_i/∂x_j = δ_ij α + Σ_k w_jk v_ki R_k", PROVED)(agreement("input"))
CLAIM.stated("∂z_i/∂v_ki = Σ_j x_j w_jk R_k", PROVED)(agreement("second-matrix"))
CLAIM.stated("∂z_i/∂w_jk = x_j v_ki R_k", PROVED)(agreement("first-matrix"))
CLAIM.stated("∂z_i/∂v_kj = 0 for j ≠ i", PROVED)(agreement("second-matrix", "across"))


@once
def gaps(lab: Lab) -> dict[str, float]:
    """The largest difference of each printed formula from torch's derivative, entry by entry."""
    g, alpha, found = lab.generator(), 1.7, dict.fromkeys(PRINTED, 0.0)

    def z(x: Tensor, W: Tensor, V: Tensor) -> Tensor:
        return alpha * x + torch.relu(x @ W) @ V

    for d, m in lab.pick(((2, 3), (3, 2)), ((1, 1), (2, 3), (3, 2), (5, 7))):
        x, W, V = (lab.normal(g, *shape) for shape in ((d,), (d, m), (m, d)))
        jacobian = torch.autograd.functional.jacobian(z, (x, W, V))  # type: ignore[no-untyped-call]
        of_x, of_W, of_V = jacobian
        R = (x @ W > 0).double()
        hidden = (x @ W) * R
        for i, j, k in product(range(d), range(d), range(m)):
            through = float((W[j] * V[:, i] * R).sum())
            pairs = {
                "input": (of_x[i, j], alpha * (i == j) + through),
                "second-matrix" if i == j else "across": (of_V[i, k, j], hidden[k] * (i == j)),
                "first-matrix": (of_W[i, j, k], x[j] * V[k, i] * R[k]),
            }
            for name, (derivative, printed) in pairs.items():
                found[name] = max(found[name], abs(float(derivative - printed)))
    return found
