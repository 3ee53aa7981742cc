"""The partial derivatives of §5.1."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

INPUT, OUTER, INNER, CROSS = (
    "∂z_i/∂x_j = δ_ij α + Σ_k w_jk v_ki R_k",
    "∂z_i/∂v_ki = Σ_j x_j w_jk R_k",
    "∂z_i/∂w_jk = x_j v_ki R_k",
    "∂z_i/∂v_kj = 0 for j ≠ i",
)


def check(context: Context) -> tuple[Finding, ...]:
    """torch's automatic derivatives of αx + relu(xW)V, entry by entry."""
    import torch

    from paper_checks.shared.verdicts import proved

    g = torch.Generator().manual_seed(context.seed)
    worst = dict.fromkeys((INPUT, OUTER, INNER, CROSS), 0.0)
    for d, m in context.pick(((2, 3), (3, 2)), ((1, 1), (2, 3), (3, 2), (5, 7))):
        alpha = 1.7
        x = torch.randn(d, generator=g, dtype=torch.float64)
        W = torch.randn(d, m, generator=g, dtype=torch.float64)
        V = torch.randn(m, d, generator=g, dtype=torch.float64)
        gx, gW, gV = torch.autograd.functional.jacobian(
            lambda x, W, V, alpha=alpha: alpha * x + torch.relu(x @ W) @ V, (x, W, V)
        )
        R = [float(sum(x[j] * W[j, k] for j in range(d)) > 0) for k in range(m)]
        for i in range(d):
            for j in range(d):
                value = (alpha if i == j else 0.0) + sum(
                    float(W[j, k] * V[k, i]) * R[k] for k in range(m)
                )
                worst[INPUT] = max(worst[INPUT], abs(float(gx[i, j]) - value))
                for k in range(m):
                    hidden = sum(float(x[n] * W[n, k]) for n in range(d)) * R[k]
                    about, value = (OUTER, hidden) if i == j else (CROSS, 0.0)
                    worst[about] = max(worst[about], abs(float(gV[i, k, j]) - value))
                    worst[INNER] = max(
                        worst[INNER], abs(float(gW[i, j, k]) - float(x[j] * V[k, i]) * R[k])
                    )
    return tuple(proved(k, v < 1e-12, f"largest difference {v:.1e}") for k, v in worst.items())


CLAIM = Claim(
    name="cake-ffn-jacobian",
    source="Transformer layer cake (AI推公式), §5.1, the four displayed partial derivatives",
    statement=(
        "∂z_i/∂x_j = δ_ij α + Σ_k w_jk v_ki R_k, ∂z_i/∂v_ki = Σ_j x_j w_jk R_k, ∂z_i/∂v_kj = "
        "0 (j ≠ i), ∂z_i/∂w_jk = x_j v_ki R_k."
    ),
    conditions="z = αx + ReLU(xW)V away from the kinks of the activation",
    recorded=tuple(Ruling(k, Verdict.PROVED) for k in (INPUT, OUTER, INNER, CROSS)),
    finding=(
        "All four derivatives are exact wherever no hidden unit sits at its kink: R_k does "
        "not change under a small move, so treating it as a constant is right for "
        "derivatives, whatever one thinks of treating it as a coin."
    ),
    check=check,
    seconds=0.5,
)
