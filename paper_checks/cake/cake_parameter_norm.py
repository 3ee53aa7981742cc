"""E‖∂f/∂θ‖² = (v² + w²)/α²."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

LEADING, BOUND, CORRECTED = (
    "scalar sublayer, leading order in r",
    "scalar sublayer, with and without the random sign, as an upper bound at any r",
    "matrices: the squared Frobenius norm is (dmw² + d²v²/2)/(α² + v²w²)·(1 − 2/d)",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Exact means over x and I for the scalars; torch Jacobians of a feed-forward sublayer."""
    import sympy as sp

    from paper_checks.shared.streams import mean
    from paper_checks.shared.verdicts import MARGIN, proved, within

    v, w, a, r = sp.symbols("v w alpha r", positive=True)
    ratios = {}  # exact over printed, with E x² = 1, the only moment that enters
    for sign in (1, -1):
        f = (a + sign * v * w) / sp.sqrt(a**2 + v**2 * w**2)
        square = (sp.diff(f, v) ** 2 + sp.diff(f, w) ** 2) / ((v**2 + w**2) / a**2)
        ratios[f"I = {sign}"] = sp.factor(sp.simplify(square.subs(v, r * a / w)))
    one_sign = ratios["I = 1"]
    fair = sp.factor(sp.simplify(sum(ratios.values()) / 2))
    # 1 − ratio over the common denominator (1 + r²)³, where no coefficient is negative
    below = {
        n: sp.Poly(sp.expand(sp.simplify((1 - q) * (1 + r**2) ** 3)), r).coeffs()
        for n, q in (("I = 1", one_sign), ("fair sign", fair))
    }
    widths = context.pick((16, 32, 64), (16, 32, 64, 128))
    seeds = context.pick(160, 96)
    squares = _jacobians(context, widths, seeds)
    # d·m·w² through V and d²v²/2 through W at v = w = 1/2, m = 4d; the norm takes α² + v²w² out
    # and removes two of the d directions
    flat = [
        mean(column / ((d * d + d * d / 8) / (4 + 1 / 16) * (1 - 2 / d)))
        for d, column in zip(widths, squares.T, strict=True)
    ]
    return (
        proved(
            LEADING,
            sp.limit(one_sign, r, 0) == 1 and sp.limit(fair, r, 0) == 1,
            f"exact over leading order is {fair} with a fair sign, {one_sign} for I = 1",
        ),
        proved(
            BOUND,
            all(c > 0 for cs in below.values() for c in cs),
            f"(1 − ratio)(1 + r²)³ is a polynomial in r of positive coefficients: {below}",
        ),
        within(
            CORRECTED,
            flat[-1],
            1 - MARGIN,
            1 + MARGIN,
            f"measured over predicted at d = {widths[-1]}",
            all_widths=[f.estimate for f in flat],
            widths=list(widths),
        ),
    )


def _jacobians(context, widths, seeds):  # type: ignore[no-untyped-def]
    """‖∂LN(αx + relu(xW)V)/∂(W, V)‖_F² at α = 2, v = w = 1/2: (seeds, widths)."""
    import numpy as np
    import torch
    from torch.nn.functional import layer_norm

    table = []
    for seed in range(seeds):
        row = []
        for d in widths:
            g = torch.Generator().manual_seed(1000 * context.seed + seed)
            m = 4 * d
            x = layer_norm(torch.randn(d, generator=g, dtype=torch.float64), (d,))
            W = 0.5 * (2 / d) ** 0.5 * torch.randn(d, m, generator=g, dtype=torch.float64)
            V = 0.5 * (1 / m) ** 0.5 * torch.randn(m, d, generator=g, dtype=torch.float64)
            W.requires_grad_(), V.requires_grad_()
            out = layer_norm(2 * x + torch.relu(x @ W) @ V, (d,))
            grads = torch.autograd.grad(
                out, (W, V), torch.eye(d, dtype=torch.float64), is_grads_batched=True
            )
            total = sum(float(gr.square().sum()) for gr in grads)
            row.append(total)
        table.append(row)
    return np.array(table)


CLAIM = Claim(
    name="cake-parameter-norm",
    source=(
        "Transformer layer cake (AI推公式), §4.2, second supplement, and §4.3, E‖∂x_{l+1}/∂θ_l‖²"
    ),
    statement="E‖∂f_l/∂θ_l‖² = (v_l² + w_l²)/α² with E x² = 1, so ‖∂f_l/∂θ_l‖ ≈ √(v_l² + w_l²)/α.",
    conditions=(
        "scalars with E x² = 1, fair sign I; matrices: Gaussian W, V with variances 2w²/d "
        "and v²/m, d from 16 to 128, m = 4d"
    ),
    recorded=(
        Ruling(LEADING, Verdict.PROVED),
        Ruling(BOUND, Verdict.PROVED),
        Ruling(CORRECTED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "For the scalar sublayer with a random sign E‖∂f/∂θ‖² is exactly (v² + w²)/α²/(1 + "
        "r²)², r = vw/α: the printed value is its leading order and an upper bound at every "
        "r, four times too large at α = v = w = 1. It does not carry over to matrices as a "
        "norm of the Jacobian: there the squared Frobenius norm is (dmw² + d²v²/2)/(α² + "
        "v²w²), which grows as the square of the width. Only the mean over independent "
        "directions of Δθ is free of the width."
    ),
    corrected=(
        "Scalars: E‖∂f/∂θ‖² = (v² + w²)/α²/(1 + r²)² with r = vw/α. Matrices: "
        "E‖∂x_{l+1}/∂θ‖_F² = (dmw² + d²v²/2)/(α² + v²w²)·(1 − 2/d)."
    ),
    check=check,
    seconds=5.0,
)
