"""At initialisation ‖θ_i‖ ≪ 1."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

SCALARS, MUCH, REACHED, MATRICES, CORRECTED = (
    "scalars: √(v² + w²) = (2N)^{−1/4} < 1 at every N, so that its square is smaller",
    "scalars: ≪ 1, a tenth or less, at the paper's 1,000 layers",
    "scalars: a tenth from N = 5,000 on, and no sooner",
    "matrices: ‖θ_i‖_F < 1",
    "matrices: ‖θ_i‖_F = β√(2Σ dm/(d + m)), the scalar's size times a function of width",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Norms of the scaled matrices of built DeepNorm stacks."""
    import sympy as sp

    from deepnet_theory.spec.selection import Selection
    from paper_checks.shared.laboratory import Case, Trial
    from paper_checks.shared.streams import DEEPNORM, mean, norms, np, settings
    from paper_checks.shared.verdicts import MARGIN, proved, seen, within

    N = sp.Symbol("N", positive=True)
    size = sp.sqrt(2) * (8 * N) ** sp.Rational(-1, 4)
    rows, over = [], []
    for width in context.pick((16, 64), (16, 64, 128)):
        for n in context.pick((1, 16), (1, 16, 128)):
            trial = Trial(
                Case(
                    Selection(optimizer="sgd"),
                    DEEPNORM,
                    {"N": n},
                    settings(context, width=width, seeds=4),
                ),
            )
            drawn, expected = {}, {}
            for p, d in trial.parameters():
                if d.role.value == "scaled":
                    place, (out, into) = (d.layer, d.kind), p.shape[1:]
                    drawn[place] = drawn.get(place, 0) + norms(p.detach()).double() ** 2
                    expected[place] = expected.get(place, 0) + 2 * out * into / (out + into)
            for kind in ("attention", "ffn"):
                found = sum(v.sqrt() for (_, k), v in drawn.items() if k == kind) / n
                rows.append({"width": width, "N": n, "kind": kind, "norm": float(found.mean())})
                over.append((found / ((8 * n) ** -0.25 * expected[0, kind] ** 0.5)).numpy())
    ratio = mean(np.concatenate(over))
    return (
        proved(
            SCALARS,
            bool(size.subs(N, 1) < 1) and sp.diff(size, N).is_negative,
            ", ".join(f"{float(size.subs(N, n)):.3f} at N = {n}" for n in (1, 100, 1000))
            + ", falling",
        ),
        proved(
            MUCH,
            bool(size.subs(N, 1000) <= sp.Rational(1, 10)),
            f"{float(size.subs(N, 1000)):.3f} at N = 1000",
        ),
        proved(
            REACHED,
            size.subs(N, 5000) == sp.Rational(1, 10) and sp.diff(size, N).is_negative,
            f"{size.subs(N, 5000)} at N = 5000, falling",
        ),
        seen(
            MATRICES,
            all(r["norm"] < 1 for r in rows),
            (
                f"both matrices of a sublayer: {min(r['norm'] for r in rows):.1f} to "
                f"{max(r['norm'] for r in rows):.1f}"
            ),
            rows=rows,
        ),
        within(
            CORRECTED,
            ratio,
            1 - MARGIN,
            1 + MARGIN,
            "measured over predicted, attention and feed-forward",
        ),
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
        Ruling(MUCH, Verdict.REFUTED),
        Ruling(REACHED, Verdict.PROVED, corrected=True),
        Ruling(MATRICES, Verdict.REFUTED),
        Ruling(CORRECTED, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "The scalar √2β = (2N)^{−1/4} is 0.84 for one layer, 0.27 for a hundred and 0.15 "
        "for a thousand: less than one, hardly much less; a tenth takes 5,000 layers. "
        "The matrices themselves are never small: their Frobenius norm is β times "
        "√(2Σdm/(d + m)), 1.0 to 12 at widths 16 to 128. "
        "The closure 1/α = ‖θ‖ is a statement on the gain β, and only its power of N "
        "means anything."
    ),
    counterexample=(
        "N = 1000: √2β = 2000^{−1/4} = 0.15; width 16, N = 16: the feed-forward matrices have "
        "‖θ‖_F = 2.1."
    ),
    corrected=(
        "√(v² + w²) = (2N)^{−1/4}, a tenth at N = 5,000; as matrices ‖θ_i‖_F = β√(2Σdm/(d + m)), "
        "Θ(N^{−1/4}) in depth at a constant of order √d."
    ),
    check=check,
    seconds=1.5,
)
