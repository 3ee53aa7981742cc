"""LN(αx + F) = LN(x + F/α)."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

EXACT, WITH_EPSILON, MENDED = (
    "for the exact normalisation",
    "as LayerNorm is built, with its ε",
    "with α² times the ε on the left",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Symbolic rows of 3 entries; torch's LayerNorm at many α and widths."""
    import sympy as sp

    alpha = sp.Symbol("alpha", positive=True)
    epsilon = sp.Symbol("epsilon", positive=True)
    x, f = (sp.Matrix(sp.symbols(f"{name}_1:4", real=True)) for name in "xF")

    def norm(z: sp.Matrix, eps: sp.Expr = sp.Integer(0)) -> sp.Matrix:
        centred = z - sp.ones(3, 1) * (sum(z) / 3)
        return centred / sp.sqrt(centred.dot(centred) / 3 + eps)

    # Squared and signs apart: no symbolic square root has to be simplified.
    def equal(left: sp.Matrix, right: sp.Matrix) -> bool:
        points = [dict(zip((*x, *f, alpha, epsilon), p, strict=True)) for p in _POINTS]
        return all(
            sp.simplify(a**2 - b**2) == 0
            and all(
                sp.N((a - b).subs(point), 40) == 0 or abs(sp.N((a - b).subs(point), 40)) < 1e-30
                for point in points
            )
            for a, b in zip(left, right, strict=True)
        )

    left, right = alpha * x + f, x + f / alpha
    exact = equal(norm(left), norm(right))
    plain_eps = equal(norm(left, epsilon), norm(right, epsilon))
    moved_eps = equal(norm(left, alpha**2 * epsilon), norm(right, epsilon))
    rows = _measured(context)
    worst = max(rows, key=lambda r: r["difference"])
    return (
        Finding(
            EXACT,
            Verdict.PROVED if exact else Verdict.REFUTED,
            "the factor α leaves mean and standard deviation together",
        ),
        Finding(
            WITH_EPSILON,
            Verdict.REFUTED if not plain_eps and worst["difference"] > 0 else Verdict.PROVED,
            f"the two sides differ by up to {worst['difference']:.2g} of the output "
            f"(α = {worst['alpha']:g}, entries of size {worst['scale']:g})",
            {"measured": rows, "seed": context.seed},
        ),
        Finding(MENDED, Verdict.PROVED if moved_eps else Verdict.REFUTED, "ε scales as a variance"),
    )


_POINTS = ((1, -2, 4, 3, 0, -5, 7, 2), (2, 3, -1, -1, 5, 2, 1, 9))


def _measured(context: Context) -> list[dict[str, float]]:
    import torch
    from torch.nn.functional import layer_norm

    generator = torch.Generator().manual_seed(context.seed)
    rows = []
    for width in context.pick((64,), (8, 64, 1024)):
        x, f = torch.randn(2, 256, width, generator=generator, dtype=torch.float64)
        for alpha in (0.1, 1.0, 6.7, 44.7):
            for scale in (1e-3, 1.0):
                left = layer_norm(scale * (alpha * x + f), (width,))
                right = layer_norm(scale * (x + f / alpha), (width,))
                rows.append(
                    {
                        "width": width,
                        "alpha": alpha,
                        "scale": scale,
                        "difference": float((left - right).norm() / right.norm()),
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
        Ruling(WITH_EPSILON, Verdict.REFUTED),
        Ruling(MENDED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "Exact for the normalisation of the formula, and so is everything derived from it. "
        "LayerNorm as built adds ε = 10⁻⁵ to the variance and is not scale-invariant: the two "
        "sides differ by 5·10⁻⁶ of the output at entries of size one, and altogether at entries "
        "of size 10⁻³. DeepNorm's αx + G with α = 7 or 45 is the safer side. The identity is "
        "restored by scaling ε as a variance."
    ),
    counterexample="x = (1, −1), F = 0, α = 2, ε > 0: 2/√(4 + ε) on the left, 1/√(1 + ε) on the right.",
    corrected="LN_ε'(αx + F) = LN_ε(x + F/α) with ε' = α²ε.",
    check=check,
)
