from dataclasses import dataclass
from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Tensor, np, once, sp, torch
from paper_checks.shared.record import MARGIN, PROVED, REFUTED, SU, SUPPORTED

CLAIM = Claim(
    name="su-homogeneous",
    source=f"{SU}, §Feed-forward gradient, below the second equation",
    statement="φ(λx) = λφ(x) for λ > 0, approximately, for ReLU and its variants Swish and GELU.",
    conditions="standard normal pre-activations of gain λ from 10⁻⁶ to 10⁶",
    finding="""ReLU is positively homogeneous, Swish and GELU are not: φ(λx)/λ misses φ(x) by up to
        40 % of its rms for λ between 1/4 and 2. In order the claim holds at every scale: rms
        φ(λz)/λ stays between 1/2 and 1/√2, and the local degree between 1 and 1.17. The two limits
        are different functions: a branch initialised with a small gain is linear (φ(x) ≈ x/2), not
        gated.""",
    corrected="""rms φ(λz)/λ is of the order of rms φ(z) for every λ > 0: between 1/2 and 1/√2 for z
        normal, with the linear x/2 as the limit λ → 0 and ReLU as that of λ → ∞.""",
    counterexample="""GELU at x = 1, λ = 2: φ(2) = 1.954, 2φ(1) = 1.683; at x = −1: φ(−2) = −0.046,
        2φ(−1) = −0.317.""",
)


@CLAIM.stated("ReLU", PROVED)
def relu(lab: Lab) -> Finding:
    lam, y = sp.symbols("lambda y", positive=True)
    cases = [sp.Max(0, lam * x) == lam * sp.Max(0, x) for x in (y, sp.Integer(0), -y)]
    return lab.proved(all(cases), "both sides are λx for x > 0 and 0 otherwise")


@CLAIM.stated("Swish and GELU: within 5 % of the rms of φ(z), for λ between 1/4 and 2", REFUTED)
def smooth(lab: Lab) -> Finding:
    off = {name: one.off for name, one in scaled(lab).items()}
    most = max(off.values())
    because = f"φ(λx)/λ differs from φ(x) by up to {most:.0%} of its rms for λ in 1/4 … 2"
    return lab.seen(most <= MARGIN, because, off=off)


@CLAIM.correction(
    "Swish and GELU in order: rms φ(λz)/λ stays within [1/2, 1/√2] for z normal and every λ",
    SUPPORTED,
)
def order(lab: Lab) -> Finding:
    rms = np.concatenate([one.rms for one in scaled(lab).values()])
    degrees = np.concatenate([one.degrees for one in scaled(lab).values()])
    return lab.seen(
        rms.min() >= 0.5 - 1e-6 and rms.max() <= 0.5**0.5 + 1e-6,
        f"rms φ(λz)/λ runs from {rms.min():.4f} (the linear x/2) to {rms.max():.4f} (ReLU); the "
        f"local degree is between {degrees.min():.2f} and {degrees.max():.2f}",
        rms={name: one.rms for name, one in scaled(lab).items()},
    )


@dataclass(frozen=True)
class Scaled:
    """One function on normal inputs of gain λ over 12 decades, by quadrature."""

    rms: Array  # of φ(λz)/λ
    degrees: Array  # the local degree in λ
    off: float  # the rms of φ(λz)/λ − φ(z) beside that of φ(z), at most, λ from 1/4 to 2


@once
def scaled(lab: Lab) -> dict[str, Scaled]:
    """Both smooth functions."""
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-(z**2) / 2) / (2 * np.pi) ** 0.5
    lams = np.logspace(-6, 6, lab.pick(49, 241))

    def size(values: Tensor) -> float:
        return float(torch.trapezoid(density * values**2, z).sqrt())

    found, functions = {}, torch.nn.functional
    smooth: dict[str, Any] = {"GELU": functions.gelu, "Swish": functions.silu}
    for name, phi in smooth.items():
        rms = np.array([size(phi(a * z)) / a for a in lams.tolist()])
        off = max(size(phi(a * z) / a - phi(z)) / size(phi(z)) for a in (0.25, 0.5, 2.0))
        found[name] = Scaled(rms, 1 + np.diff(np.log(rms)) / np.diff(np.log(lams)), off)
    return found
