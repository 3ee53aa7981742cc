"""ReZero's scalar plays the part of λ/α."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import proved, seen

FORWARD, GRADIENT, FORWARD_MENDED, BOTH, ZERO = (
    "a = λ/α gives the same branch weight",
    "a = λ/α gives the same gradient of the matrices",
    "a = λ²/α gives the same branch weight",
    "both agree only for λ = 1, a = 1/α",
    "at ReZero's a = 0 no matrix has a gradient, which no λ/α > 0 has",
)


def check(context: Context) -> tuple[Finding, ...]:
    """z = x + aφ(xU₁)U₂ against z = x + φ(xλU₁)λU₂/α, symbolically and by differentiation."""
    import sympy as sp
    import torch

    # One unit: U are of gain 1, ReLU active; a function of the matrices' own entries w = λu.
    x, w1, w2 = sp.symbols("x w1 w2", positive=True)
    lam, alpha, a = sp.symbols("lambda alpha a", positive=True)
    rezero, deepnorm = a * x * w1 * w2, x * w1 * w2 / alpha
    at_rezero, at_deepnorm = {w1: 1, w2: 1}, {w1: lam, w2: lam}
    weight = sp.simplify(deepnorm.subs(at_deepnorm) / rezero.subs(at_rezero))
    slope = sp.simplify(
        sp.diff(deepnorm, w1).subs(at_deepnorm) / sp.diff(rezero, w1).subs(at_rezero)
    )
    same_weight = sp.solve(sp.Eq(weight, 1), a)[0]
    same_slope = sp.solve(sp.Eq(slope, 1), a)[0]
    both = sp.solve([sp.Eq(weight, 1), sp.Eq(slope, 1)], [a, lam], dict=True)

    generator = torch.Generator().manual_seed(context.seed)
    x_, u1, u2, up = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((16, 32), (32, 64), (64, 32), (16, 32))
    )

    def sizes(gain: float, factor: float) -> tuple[float, float]:
        first, second = (gain * u1).requires_grad_(), (gain * u2).requires_grad_()
        branch = factor * torch.relu(x_ @ first) @ second
        g = torch.autograd.grad((branch * up).sum(), (first, second))
        return float(branch.detach().norm()), float(sum(t.norm() ** 2 for t in g) ** 0.5)

    off = 0.0
    for lam_, alpha_ in ((0.25, 4.0), (0.5, 1.0), (1.0, 8.0)):
        theirs, mine = sizes(1.0, lam_ / alpha_), sizes(lam_, 1 / alpha_)
        off = max(off, abs(theirs[1] / mine[1] - 1), abs(theirs[0] / mine[0] * lam_ - 1))
    zero = sizes(1.0, 0.0)[1]
    return (
        proved(
            FORWARD,
            sp.simplify(same_weight - lam / alpha) == 0,
            f"the branch weights agree for a = {same_weight}",
        ),
        proved(
            GRADIENT,
            sp.simplify(same_slope - lam / alpha) == 0 and off < 1e-9,
            f"the gradients agree for a = {same_slope}; matrices agree within {off:.0e}",
            seed=context.seed,
        ),
        proved(
            FORWARD_MENDED, sp.simplify(same_weight - lam**2 / alpha) == 0, f"a = {same_weight}"
        ),
        proved(
            BOTH,
            len(both) == 1 and both[0][lam] == 1 and both[0][a] == 1 / alpha,
            f"solved: {both}",
        ),
        seen(ZERO, zero == 0.0, f"the gradient's norm at a = 0 is {zero:g}"),
    )


CLAIM = Claim(
    name="su-rezero",
    source=f"{SU}, reader's comment of 2023-07 on ReZero (arXiv 2003.04887)",
    statement="ReZero's scalar a in x + aF(x) is DeepNet's λ/α.",
    conditions="branches of two matrices, F initialised with gain 1 in ReZero and λ in "
    "DeepNet; ReLU",
    recorded=(
        Ruling(FORWARD, Verdict.REFUTED),
        Ruling(GRADIENT, Verdict.PROVED),
        Ruling(FORWARD_MENDED, Verdict.PROVED, corrected=True),
        Ruling(BOTH, Verdict.PROVED, corrected=True),
        Ruling(ZERO, Verdict.SUPPORTED),
    ),
    finding=(
        "ReZero's scalar equals λ/α in what it does to the matrices' gradients, and λ²/α in "
        "what it does to "
        "the forward pass: no single value plays both parts unless λ = 1, where a = 1/α. It "
        "is Su's "
        "second alternative (λ = 1), made trainable and started at 0, where the first step "
        "moves only the scalars."
    ),
    counterexample="λ = 1/2, α = 1: a = λ/α = 1/2 doubles the branch weight λ²/α = 1/4.",
    corrected="a = λ²/α for the branch weight, a = λ/α for the gradients; both only for λ = "
    "1, a = 1/α.",
    check=check,
)
