"""∂L/∂λ₁ = O(λ₂/α), ∂L/∂λ₂ = O(λ₁/α)."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import proved

ORDER, PROBE, BOUND, EXACT, LAW = (
    "order of ‖∂L/∂W‖ for a small branch weight",
    "order of |∂L/∂λ| for a small branch weight",
    "as a bound, at any branch weight",
    "as an order (Θ) it fails where the branch is not small",
    "with √(α² + λ₁²λ₂²) in place of α, for one sublayer at any branch weight",
)
RELU, GELU, MENDED = (
    "∂z/∂λ₁ = λ₂φ(xU₁)U₂/α for ReLU",
    "∂z/∂λ₁ = λ₂φ(xU₁)U₂/α for GELU",
    "∂z/∂λ₁ = λ₂(φ′(λ₁xU₁) ⊙ xU₁)U₂/α for GELU",
)


def check(context: Context) -> tuple[Finding, ...]:
    """The scan of knobs, and the displayed derivative against automatic differentiation."""
    import torch
    from torch.nn.functional import gelu, relu

    from paper_checks._branch_gradients import check_branch

    generator = torch.Generator().manual_seed(context.seed)
    x, u1, u2 = (
        torch.randn(shape, generator=generator, dtype=torch.float64) / shape[0] ** 0.5
        for shape in ((16, 32), (32, 128), (128, 32))
    )
    x = x * 4
    error = {}
    for name, phi in (("relu", relu), ("gelu", gelu)):
        l1, l2, alpha = 0.4, 0.7, 3.0
        _, slope = torch.autograd.functional.jvp(
            lambda t, phi=phi, l2=l2: x + l2 * phi(t * x @ u1) @ u2 / 3.0,
            torch.tensor(l1, dtype=torch.float64),
            torch.tensor(1.0).double(),
        )
        shown = l2 * phi(x @ u1) @ u2 / alpha
        error[name] = float((slope - shown).norm() / slope.norm())
    u = (0.4 * x @ u1).requires_grad_()
    (bend,) = torch.autograd.grad(gelu(u).sum(), u)
    mended = float((slope - 0.7 * (bend * (x @ u1)) @ u2 / 3.0).norm() / slope.norm())
    return (
        *check_branch(context, "ffn", "fc1", "fc2"),
        proved(RELU, error["relu"] < 1e-12, f"relative difference {error['relu']:.0e}", **error),
        proved(GELU, error["gelu"] < 1e-12, f"relative difference {error['gelu']:.0%} at λ₁ = 0.4"),
        proved(MENDED, mended < 1e-12, f"relative difference {mended:.0e}"),
    )


CLAIM = Claim(
    name="su-ffn-gradient",
    source=f"{SU}, §Feed-forward gradient, third to fifth equations",
    statement="∂L/∂λ₁ = O(λ₂/α) and ∂L/∂λ₂ = O(λ₁/α) for z = x + λ₁λ₂φ(xU₁)U₂/α.",
    conditions="post-LN stacks of feed-forward sublayers; λ from 1/8 to 8, α from 1 to 64",
    recorded=(
        Ruling(ORDER, Verdict.SUPPORTED),
        Ruling(PROBE, Verdict.SUPPORTED),
        Ruling(BOUND, Verdict.SUPPORTED),
        Ruling(EXACT, Verdict.SUPPORTED),
        Ruling(LAW, Verdict.SUPPORTED),
        Ruling(RELU, Verdict.PROVED),
        Ruling(GELU, Verdict.REFUTED),
        Ruling(MENDED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "The exponents (0, 1, −1) and (1, 0, −1) in the two gains and α are met within 0.01 as "
        "long as the branch is small beside the stream. The relation is an upper bound at any "
        "branch weight but an order only for r = λ₁λ₂/α ≪ 1: at r = 64 the gradient is 3 % of "
        "λ/α. With √(α² + λ₁²λ₂²) in place of α it holds at any branch weight, to 6 % at width "
        "32, 3 % at 64 and 0.4 % at 128. The displayed derivative is exact for ReLU; for GELU it "
        "is off by 8 % at λ₁ = 0.4, because φ′(u)u ≠ φ(u)."
    ),
    counterexample=(
        "One sublayer, α = 1, λ₁ = λ₂ = 8: ‖∂L/∂W‖·α/λ is 0.03 of its value at λ₁ = λ₂ = 1/8. "
        "GELU, λ₁ = 0.4: the shown ∂z/∂λ₁ is 8 % off."
    ),
    corrected=(
        "‖∂L/∂W₁‖ ~ λ₂/√(α² + c²λ₁²λ₂²), c the rms of the branch with its gains taken out (and "
        "symmetrically); λ₂/α is its limit for small branch weight and a bound otherwise. For "
        "GELU ∂z/∂λ₁ = λ₂(φ′(u) ⊙ xU₁)U₂/α with u = λ₁xU₁."
    ),
    check=check,
    seconds=0.5,
)
