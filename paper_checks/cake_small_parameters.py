"""At initialisation ‖θ_i‖ ≪ 1."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

SCALARS, SHALLOW, MATRICES, CORRECTED = (
    "scalars √(v² + w²) = (2N)^{−1/4}: below 0.16 at N ≥ 1000",
    "scalars: below 0.1 at N = 100",
    "matrices: ‖θ_i‖_F < 1",
    "matrices: ‖θ_i‖_F = β√(2Σ dm/(d + m)), the scalar's size times a function of width",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Norms of the scaled matrices of built DeepNorm stacks."""
    import sympy as sp

    from deepnet_theory.numeric.trial import Trial
    from deepnet_theory.spec.selection import Selection
    from paper_checks._cake_measure import DEEPNORM, mean, norms, settings, torch
    from paper_checks._verdicts import proved, seen, within

    N = sp.Symbol("N", positive=True)
    size = sp.sqrt(2) * (8 * N) ** sp.Rational(-1, 4)
    rows, over = [], []
    for width in context.pick((16, 64), (16, 64, 128)):
        for n in context.pick((1, 16), (1, 16, 128)):
            trial = Trial(
                Selection(optimizer="sgd"),
                DEEPNORM,
                {"N": n},
                settings(context, width=width, seeds=4),
            )
            squares = {}
            for p, d in trial.parameters():
                if d.role.value == "scaled":
                    squares[d.layer, d.kind] = (
                        squares.get((d.layer, d.kind), 0) + norms(p.detach()).double() ** 2
                    )
            found = (
                torch.stack([v for (_, kind), v in squares.items() if kind == "ffn"]).sqrt().mean(0)
            )
            predicted = float((8 * n) ** -0.25 * (2 * 2 * width * 4 * width / (5 * width)) ** 0.5)
            rows.append(
                {
                    "width": width,
                    "N": n,
                    "norm": float(found.mean()),
                    "scalar": float(size.subs(N, n)),
                }
            )
            over.append((found / predicted).numpy())
    import numpy as np

    ratio = mean(np.concatenate(over))
    return (
        proved(
            SCALARS,
            float(size.subs(N, 1000)) < 0.16 and sp.diff(size, N).is_negative,
            f"{float(size.subs(N, 1000)):.3f} at N = 1000, falling",
        ),
        proved(
            SHALLOW,
            float(size.subs(N, 100)) < 0.1,
            f"{float(size.subs(N, 100)):.3f} at N = 100, {float(size.subs(N, 1)):.3f} at N = 1",
        ),
        seen(
            MATRICES,
            all(r["norm"] < 1 for r in rows),
            (
                f"feed-forward matrices: {min(r['norm'] for r in rows):.1f} to "
                f"{max(r['norm'] for r in rows):.1f}"
            ),
            rows=rows,
        ),
        within(CORRECTED, ratio, 0.97, 1.03, "measured over predicted"),
    )


CLAIM = Claim(
    name="cake-small-parameters",
    source=(
        "Transformer layer cake (AI推公式), §4.3, last supplement ('at the initial stage ‖θ_i‖ "
        "≪ 1')"
    ),
    statement=(
        "‖θ_i‖ ≪ 1 at initialisation, so that ‖θ_i‖² is smaller than ‖θ_i‖ and the update "
        "O(η‖θ_i‖²) moderate."
    ),
    conditions=(
        "DeepNorm's constants; θ_i read as the pair of scalars (v, w), and as the two "
        "matrices of built stacks of width 16 to 128"
    ),
    recorded=(
        Ruling(SCALARS, Verdict.PROVED),
        Ruling(SHALLOW, Verdict.REFUTED),
        Ruling(MATRICES, Verdict.REFUTED),
        Ruling(CORRECTED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "The scalar √2β = (2N)^{−1/4} is 0.84 for one layer, 0.27 for a hundred and 0.15 "
        "for a thousand: less than one, hardly much less. "
        "The matrices themselves are never small: their Frobenius norm is β times "
        "√(2Σdm/(d + m)), 1.3 to 12 at widths 16 to 128. "
        "The closure 1/α = ‖θ‖ is a statement on the gain β, and only its power of N "
        "means anything."
    ),
    counterexample="N = 1: √2β = 2^{−1/4} = 0.84; width 16, N = 16: ‖θ‖_F = 2.1.",
    corrected="‖θ_i‖ = Θ(β) = Θ(N^{−1/4}) in depth, at a constant of order √d.",
    check=check,
    seconds=1.5,
)
