from __future__ import annotations

from dataclasses import dataclass

from paper_checks.shared.bench import Array, Claim, Finding, Lab, once, sp, torch
from paper_checks.shared.record import MARGIN, PROVED, REFUTED, SU, SUPPORTED

CLAIM = Claim(
    name="su-xavier-orthogonal",
    source=f"{SU}, §Magnitude analysis, below the first equation",
    statement="""A Xavier matrix is close to orthogonal, hence λ(W) is the gain of its
        initialisation.""",
    conditions="""Gaussian Xavier matrices d×m of gain 1 and 1/4, widths 64 to 768, m/d from 1/4 to
        4""",
    finding="""A square Xavier matrix is half way between orthogonal and nothing: its singular
        values fill [0, 2·gain], and the least ‖WWᵀ/κ² − I‖² is d/2, not small, at any width. The
        magnitude that Su's argmin assigns to it is √2 times the gain, whatever its shape. What
        survives is proportionality to the gain, which is all that orders of magnitude need, and
        that two given rows are nearly orthogonal, with a cosine of rms m^{−1/2}: many small cosines
        add up.""",
    counterexample="d = m = 64, gain 1, 32 draws: λ(W) = 1.42, singular values 0.0004 to 2.06.",
    corrected="""λ(W)² concentrates on σ²(d + m + 1) = 2(d+m+1)/(d+m)·gain², so λ ≈ √2·gain; the
        distance² left is d/(d+m+1) a row (1/2 for square matrices, small only for m ≫ d).""",
)

WIDTHS = (32, 64, 128, 256)


@CLAIM.stated("λ(W) is proportional to the gain", SUPPORTED)
def proportional(lab: Lab) -> Finding:
    found = matrices(lab)
    others = {(d, m): of.magnitude for (d, m, gain), of in found.items() if gain != 1.0}
    ratios = {f"{d} × {m}": found[d, m, 1.0].magnitude / of for (d, m), of in others.items()}
    return lab.ratio({n: lab.mean(r) for n, r in ratios.items()}, "gain 1 over gain 1/4")


@CLAIM.stated("λ(W) equals the gain", REFUTED)
def equal(lab: Lab) -> Finding:
    found = {str(key): lab.mean(of.magnitude) for key, of in matrices(lab).items()}
    return lab.ratio(found, "λ/gain")


@CLAIM.stated("a square Xavier matrix is close to orthogonal", REFUTED)
def orthogonal(lab: Lab) -> Finding:
    square = {key: of for key, of in matrices(lab).items() if key[0] == key[1]}
    found = {str(key): lab.mean(of.distance) for key, of in square.items()}
    what = "distance² to the nearest multiple of the identity, a row"
    singular_values = {key: of.ends for key, of in square.items()}
    return lab.within(found, -MARGIN, MARGIN, what, singular_values=singular_values)


@CLAIM.stated(
    "two of its rows are nearly orthogonal: the cosine between them has the rms m^{−1/2}", SUPPORTED
)
def rows(lab: Lab) -> Finding:
    cosines, generator = [], lab.generator(1)
    for d in WIDTHS:
        w = torch.nn.functional.normalize(xavier(lab, d, d, 1.0, generator), dim=-1)
        off = w @ w.mT - torch.eye(d, dtype=torch.float64)
        cosines.append((off.square().sum((1, 2)) / (d * (d - 1))).sqrt())
    found, rivals = lab.columns(cosines), (("no orthogonality", 0.0),)  # (draws, widths)
    shown = {"what": "exponent in m of the rms cosine", "cosines": found.mean(0)}
    return lab.exponent(lab.power(WIDTHS, found), -0.5, rivals, **shown)


@CLAIM.correction("E‖WWᵀ‖²/E‖W‖² = σ²(d + m + 1) for Gaussian W", PROVED)
def law(lab: Lab) -> Finding:
    # Isserlis on the entries of a pair of rows
    d, m, sigma = sp.symbols("d m sigma", positive=True)
    same = m * 3 * sigma**4 + m * (m - 1) * sigma**4  # E(Σ w_i²)²
    other = m * sigma**4  # E(Σ w_i v_i)²
    ratio = (d * same + d * (d - 1) * other) / (d * m * sigma**2)
    holds = sp.expand(ratio - sigma**2 * (d + m + 1)) == 0
    return lab.proved(holds, "d squares of a row's length and d(d − 1) of two rows' product")


@CLAIM.correction(
    "drawn: λ(W)² = 2(d+m+1)/(d+m) · gain² in ratio of expectations, distance² d/(d+m+1) a row",
    SUPPORTED,
)
def drawn(lab: Lab) -> Finding:
    off, off_rest = 0.0, 0.0
    for (d, m, _), of in matrices(lab).items():
        off = max(off, abs(of.magnitude.mean() / (2 * (d + m + 1) / (d + m)) ** 0.5 - 1))
        off_rest = max(off_rest, abs(of.distance.mean() - d / (d + m + 1)))
    # the law is of expectations: 2 % is left to ratios of single draws of 64 × 64
    because = f"measured within {off:.1%} and {off_rest:.3f} of the exact ratios"
    return lab.seen(off < 0.02 and off_rest < 0.02, because)


@dataclass(frozen=True)
class Drawn:
    """λ(W)/gain and the least distance² a row, (draws,) each; the extreme singular values."""

    magnitude: Array
    distance: Array
    ends: tuple[float, float]


@once
def matrices(lab: Lab) -> dict[tuple[int, int, float], Drawn]:
    """By d, m and gain."""
    shapes = lab.pick(
        ((64, 64), (256, 256), (64, 256), (256, 64)),
        ((64, 64), (256, 256), (768, 768), (128, 512), (512, 128)),
    )
    found, generator = {}, lab.generator()
    for d, m in shapes:
        for gain in (1.0, 0.25):
            s2 = torch.linalg.svdvals(xavier(lab, d, m, gain, generator)) ** 2
            fourth, square = s2.square().sum(1), s2.sum(1)
            found[d, m, gain] = Drawn(
                ((fourth / square).sqrt() / gain).numpy(),
                ((d - square**2 / fourth) / d).numpy(),
                (float(s2.min().sqrt()) / gain, float(s2.max().sqrt()) / gain),
            )
    return found


def xavier(lab: Lab, d: int, m: int, gain: float, generator: torch.Generator) -> torch.Tensor:
    """Matrices as the runtime's initialisation draws them: (draws, d, m)."""
    w = torch.empty(lab.pick(8, 32), d, m, dtype=torch.float64)
    return w.normal_(0, gain * (2 / (d + m)) ** 0.5, generator=generator)
