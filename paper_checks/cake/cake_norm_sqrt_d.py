"""Mean 0 and variance 1 make a length of √d; the paper writes d."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

ROOT, PAPER_D, CORRECTED = (
    "‖x‖ = √d (layer cake)",
    "‖x‖ = d (paper)",
    "with LayerNorm's ε, and for a variance over d − 1",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Sums of squares in symbols, and torch's LayerNorm in float64."""
    import sympy as sp
    import torch
    from torch.nn.functional import layer_norm

    from paper_checks.shared.verdicts import proved

    exact = []
    for d in context.pick((2, 3, 5), (2, 3, 5, 8, 12)):
        x = sp.symbols(f"x_1:{d + 1}", real=True)
        mean = sp.Add(*x) / d
        variance = sp.Add(*((e - mean) ** 2 for e in x)) / d
        # ‖x‖² as a function of the two statistics: d·variance + d·mean²
        length = sp.Add(*(e**2 for e in x))
        exact.append(sp.expand(length - d * variance - d * mean**2) == 0)
    rows = []
    for d in context.pick((4, 64), (2, 4, 16, 64, 1024)):
        for scale in (1.0, 1e-2):
            z = scale * torch.randn(64, d, dtype=torch.float64, generator=_generator(context))
            y = layer_norm(z, (d,), eps=1e-5)
            variance = z.var(-1, unbiased=False)
            shrunk = (variance / (variance + 1e-5)).sqrt()
            rows.append(
                {
                    "d": d,
                    "scale": scale,
                    "norm over sqrt(d)": float((y.norm(dim=-1) / d**0.5).mean()),
                    "residual": float((y.norm(dim=-1) - d**0.5 * shrunk).abs().max()),
                    "sample variance": float(
                        ((z - z.mean(-1, keepdim=True)) / z.std(-1, keepdim=True))
                        .norm(dim=-1)
                        .sub((d - 1) ** 0.5)
                        .abs()
                        .max()
                    ),
                }
            )
    two = sp.Matrix([1, -1])  # mean 0, variance 1, length √2
    return (
        proved(ROOT, all(exact), "‖x‖² = d·var(x) + d·mean(x)² identically, so ‖x‖² = d"),
        proved(
            PAPER_D,
            two.norm() == 2,
            f"x = (1, −1) has mean 0, variance 1 and length {two.norm()}, not 2",
        ),
        proved(
            CORRECTED,
            all(r["residual"] < 1e-9 and r["sample variance"] < 1e-9 for r in rows),
            "‖LN(z)‖ = √(d·var/(var + ε)) to 1e-9; a variance over d − 1 would give √(d − 1)",
            rows=rows,
        ),
    )


def _generator(context: Context):  # type: ignore[no-untyped-def]
    import torch

    return torch.Generator().manual_seed(context.seed)


CLAIM = Claim(
    name="cake-norm-sqrt-d",
    source=(
        "Transformer layer cake (AI推公式), §4.1, proof of the lemma; DeepNet, arXiv "
        "2203.00555, Lemma 4.1"
    ),
    statement=(
        "mean(x) = 0 and var(x) = 1 over d entries give ‖x‖ = √d; the paper's ‖x‖ = d lacks "
        "the root."
    ),
    conditions=(
        "variance over d entries (population), as LayerNorm takes it; d from 2 to 1024, with "
        "and without ε"
    ),
    recorded=(
        Ruling(ROOT, Verdict.PROVED),
        Ruling(PAPER_D, Verdict.REFUTED),
        Ruling(CORRECTED, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "The length of a normalised token is exactly √d, since ‖x‖² = d·var + d·mean². "
        "The paper's d is a "
        "slip without consequences, because only the ratio of two token lengths enters "
        "the lemma. As built, "
        "LayerNorm's ε makes it √(d·var/(var + ε)), which is felt where the input's "
        "variance falls to 10⁻⁵."
    ),
    counterexample="x = (1, −1): mean 0, variance 1, ‖x‖ = √2 ≠ 2.",
    corrected=(
        "‖x‖ = √d for the population variance, √(d − 1) for the sample variance, "
        "√(d·var/(var + ε)) for LayerNorm with ε."
    ),
    check=check,
    seconds=1.5,
)
