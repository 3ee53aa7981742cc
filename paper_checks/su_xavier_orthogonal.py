"""A Xavier matrix is close to orthogonal, so λ(W) is its gain."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import seen

PROPORTIONAL, GAIN, ORTHOGONAL, LAW = (
    "λ(W) is proportional to the gain",
    "λ(W) equals the gain",
    "a square Xavier matrix is close to orthogonal",
    "λ(W)² = 2(d+m+1)/(d+m) · gain² in ratio of expectations, distance² d/(d+m+1) a row",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Singular values of matrices that the runtime's own initialisation drew."""
    import torch

    from deepnet_theory.symbolic.magnitude import gaussian_magnitude

    failed = [s.name for s in gaussian_magnitude() if s.check() is not Verdict.PROVED]
    generator = torch.Generator().manual_seed(context.seed)
    draws = context.pick(8, 32)
    rows, scaled = [], []
    for d, m in context.pick(
        ((64, 64), (256, 256), (64, 256), (256, 64)),
        ((64, 64), (256, 256), (768, 768), (128, 512), (512, 128)),
    ):
        for gain in (1.0, 0.25):
            std = gain * (2 / (d + m)) ** 0.5
            w = torch.empty(draws, d, m, dtype=torch.float64).normal_(0, std, generator=generator)
            s2 = torch.linalg.svdvals(w) ** 2  # (draws, min(d, m))
            magnitude = (s2.square().sum(1) / s2.sum(1)).sqrt()
            rest = (d - s2.sum(1) ** 2 / s2.square().sum(1)) / d
            rows.append(
                {
                    "d": d,
                    "m": m,
                    "gain": gain,
                    "draws": draws,
                    "lambda/gain": float(magnitude.mean()) / gain,
                    "spread": float(magnitude.std()) / gain,
                    "distance^2 a row": float(rest.mean()),
                    "least singular value/gain": float(s2.min().sqrt()) / gain,
                    "greatest singular value/gain": float(s2.max().sqrt()) / gain,
                    "law for lambda/gain": (2 * (d + m + 1) / (d + m)) ** 0.5,
                    "law for distance^2": d / (d + m + 1),
                }
            )
        scaled.append(rows[-2]["lambda/gain"] / rows[-1]["lambda/gain"])
    square = [r for r in rows if r["d"] == r["m"]]
    off = max(abs(r["lambda/gain"] / r["law for lambda/gain"] - 1) for r in rows)
    off_rest = max(abs(r["distance^2 a row"] - r["law for distance^2"]) for r in rows)
    evidence = {"matrices": rows, "seed": context.seed, "failed steps": failed}
    ratio = square[-1]["lambda/gain"]
    return (
        seen(
            PROPORTIONAL,
            max(abs(s - 1) for s in scaled) < 0.02,
            "λ/gain agrees between gains 1 and 1/4",
            ratios=scaled,
        ),
        seen(
            GAIN,
            all(abs(r["lambda/gain"] - 1) < 0.05 for r in rows),
            f"λ is {ratio:.3f} times the gain",
            **evidence,
        ),
        seen(
            ORTHOGONAL,
            all(r["distance^2 a row"] < 0.05 for r in square),
            f"the least distance² to the identity is {square[-1]['distance^2 a row']:.2f} a "
            f"row, and "
            f"singular values run from {square[-1]['least singular value/gain']:.3f} to "
            f"{square[-1]['greatest singular value/gain']:.2f} times the gain",
        ),
        seen(
            LAW,
            not failed and off < 0.02 and off_rest < 0.02,
            f"measured within {off:.1%} and {off_rest:.3f} of the exact ratios",
        ),
    )


CLAIM = Claim(
    name="su-xavier-orthogonal",
    source=f"{SU}, §Magnitude analysis, below the first equation",
    statement="A Xavier matrix is close to orthogonal, hence λ(W) is the gain of its "
    "initialisation.",
    conditions="Gaussian Xavier matrices d×m of gain 1 and 1/4, widths 64 to 768, m/d from "
    "1/4 to 4",
    recorded=(
        Ruling(PROPORTIONAL, Verdict.SUPPORTED),
        Ruling(GAIN, Verdict.REFUTED),
        Ruling(ORTHOGONAL, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "A square Xavier matrix is half way between orthogonal and nothing: its singular "
        "values fill "
        "[0, 2·gain], and the least ‖WWᵀ/κ² − I‖² is d/2, not small, at any width. The "
        "magnitude that "
        "Su's argmin assigns to it is √2 times the gain, whatever its shape. What survives is "
        "proportionality to the gain, which is all that orders of magnitude need; what is "
        "preserved is "
        "the norm of a vector that does not depend on W."
    ),
    counterexample="d = m = 64, gain 1: λ(W) = 1.42, singular values from about 0.01 to 1.97.",
    corrected=(
        "λ(W)² concentrates on σ²(d + m + 1) = 2(d+m+1)/(d+m)·gain², so λ ≈ √2·gain; the distance² "
        "left is d/(d+m+1) a row (1/2 for square matrices, small only for m ≫ d)."
    ),
    check=check,
)
