"""LN(αx + F) = LN(x + F/α)."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

EXACT, WITH_EPSILON, MENDED = (
    "for the exact normalisation",
    "LayerNorm as built departs from it, through its ε",
    "exact again with α² times the ε on the left",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Symbolic rows of 3 entries; torch's LayerNorm at many α and widths."""
    import sympy as sp

    from paper_checks._verdicts import proved

    alpha = sp.Symbol("alpha", positive=True)
    epsilon = sp.Symbol("epsilon", positive=True)
    x, f = (sp.Matrix(sp.symbols(f"{name}_1:4", real=True)) for name in "xF")

    # LN(z) = c/√(v + ε) with c = z − mean, v = |c|²/3. For α > 0 it is enough that c scales by α
    # and what stands under the root by α²: no symbolic root has to be simplified.
    def centred(z: sp.Matrix) -> sp.Matrix:
        return z - sp.ones(3, 1) * (sum(z) / 3)

    left, right = centred(alpha * x + f), centred(x + f / alpha)
    direction = (left - alpha * right).applyfunc(sp.expand) == sp.zeros(3, 1)

    def same_root(on_the_left: sp.Expr, on_the_right: sp.Expr) -> bool:
        inside = left.dot(left) / 3 + on_the_left
        return (
            direction and sp.expand(inside - alpha**2 * (right.dot(right) / 3 + on_the_right)) == 0
        )

    exact = same_root(sp.Integer(0), sp.Integer(0))
    plain_eps = same_root(epsilon, epsilon)
    moved_eps = same_root(alpha**2 * epsilon, epsilon)
    rows = _measured(context)
    worst = max(rows, key=lambda r: r["difference"])
    rounding = max(r["restored"] for r in rows)
    return (
        proved(EXACT, exact, "the factor α leaves mean and standard deviation together"),
        proved(
            WITH_EPSILON,
            not plain_eps and worst["difference"] > rounding,
            f"the two sides differ by up to {worst['difference']:.2g} of the output "
            f"(α = {worst['alpha']:g}, entries of size {worst['scale']:g})",
            measured=rows,
        ),
        proved(
            MENDED,
            moved_eps and rounding < 1e-12,
            f"ε scales as a variance; torch's LayerNorm agrees within {rounding:.0e}",
        ),
    )


def _measured(context: Context) -> list[dict[str, float]]:
    import torch
    from torch.nn.functional import layer_norm

    from deepnet_theory.runtime.linear import NORM_EPS

    generator = torch.Generator().manual_seed(context.seed)
    rows = []
    for width in context.pick((64,), (8, 64, 1024)):
        x, f = torch.randn(2, 256, width, generator=generator, dtype=torch.float64)
        for alpha in (0.1, 1.0, 6.7, 44.7):
            for scale in (1e-3, 1.0):
                both, reduced = scale * (alpha * x + f), scale * (x + f / alpha)
                left, right = layer_norm(both, (width,)), layer_norm(reduced, (width,))
                restored = layer_norm(both, (width,), eps=alpha**2 * NORM_EPS)
                rows.append(
                    {
                        "width": width,
                        "alpha": alpha,
                        "scale": scale,
                        "difference": float((left - right).norm() / right.norm()),
                        "restored": float((restored - right).norm() / right.norm()),
                    }
                )
    return rows


CLAIM = Claim(
    name="su-ln-scale",
    source=(
        "Su Jianlin, 'What is difficult about training a 1000-layer Transformer?' (2022-03-09), "
        "§Feed-forward gradient, first equation"
    ),
    statement="LN(αx + F(x)) = LN(x + F(x)/α) for every α > 0.",
    conditions="any x, F, α > 0; LayerNorm with and without its ε = 10⁻⁵ inside the root",
    recorded=(
        Ruling(EXACT, Verdict.PROVED),
        Ruling(WITH_EPSILON, Verdict.PROVED),
        Ruling(MENDED, Verdict.PROVED),
    ),
    finding=(
        "Exact for the normalisation of the formula, and so is everything derived from it. "
        "LayerNorm as built adds ε = 10⁻⁵ to the variance and is not scale-invariant: the two "
        "sides differ by 5·10⁻⁶ of the output at entries of size one, and altogether at entries "
        "of size 10⁻³. DeepNorm's αx + G with α = 7 or 45 is the safer side. The identity is "
        "restored by scaling ε as a variance."
    ),
    counterexample="x = (1, −1), F = 0, α = 2, ε > 0: 2/√(4 + ε) on the left, 1/√(1 + ε) on "
    "the right.",
    check=check,
)
