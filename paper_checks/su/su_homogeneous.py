"""φ(λx) = λφ(x) for ReLU, Swish and GELU."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import MARGIN, proved, seen

RELU, SMOOTH, ORDER = (
    "ReLU",
    "Swish and GELU: within 5 % of the rms of φ(z), for λ between 1/4 and 2",
    "Swish and GELU in order: rms φ(λz)/λ stays within [1/2, 1/√2] for z normal and every λ",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Cases of ReLU's sign; quadrature of the two smooth functions over 12 decades of λ."""
    import numpy as np
    import sympy as sp
    from scipy.special import erf, expit

    x = sp.Symbol("x", real=True)
    lam = sp.Symbol("lambda", positive=True)
    relu = sp.Max(0, x)
    cases = [
        sp.simplify((relu.subs(x, lam * s * y) - lam * relu.subs(x, s * y)).doit())
        for y in (sp.Symbol("y", positive=True), sp.Integer(0))
        for s in (1, -1)
    ]
    grid = np.linspace(-12, 12, 200_001)
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    functions = {
        "GELU": lambda t: t * (1 + erf(t / np.sqrt(2))) / 2,
        "Swish": lambda t: t * expit(t),
    }
    lams = np.logspace(-6, 6, context.pick(49, 241))
    rows: dict[str, object] = {}
    low, high, degrees, off = 1.0, 0.0, (1.0, 1.0), 0.0
    for name, phi in functions.items():
        rms = np.array(
            [np.sqrt(np.trapezoid(density * phi(a * grid) ** 2, grid)) / a for a in lams]
        )
        local = 1 + np.diff(np.log(rms)) / np.diff(np.log(lams))
        off_here = max(
            np.sqrt(
                np.trapezoid(density * (phi(a * grid) / a - phi(grid)) ** 2, grid)
                / np.trapezoid(density * phi(grid) ** 2, grid)
            )
            for a in (0.25, 0.5, 2.0)
        )
        low, high = min(low, float(rms.min())), max(high, float(rms.max()))
        degrees = min(degrees[0], float(local.min())), max(degrees[1], float(local.max()))
        off = max(off, float(off_here))
        rows[name] = {
            "rms/lambda at 1e-6, 1, 1e6": [rms[0], rms[len(rms) // 2], rms[-1]],
            "least and largest local degree": [float(local.min()), float(local.max())],
            "at lambda": float(lams[int(local.argmax())]),
            "error of the equality at lambda 1/4, 1/2 or 2": float(off_here),
        }
    return (
        proved(RELU, all(c == 0 for c in cases), "both sides are λx for x > 0 and 0 otherwise"),
        seen(
            SMOOTH,
            off <= MARGIN,
            f"φ(λx)/λ differs from φ(x) by up to {off:.0%} of its rms for λ in 1/4 … 2",
            **rows,
        ),
        seen(
            ORDER,
            low >= 0.5 - 1e-6 and high <= 0.5**0.5 + 1e-6,
            f"rms φ(λz)/λ runs from {low:.4f} (the linear x/2) to {high:.4f} (ReLU); the local "
            f"degree is between {degrees[0]:.2f} and {degrees[1]:.2f}",
            **rows,
        ),
    )


CLAIM = Claim(
    name="su-homogeneous",
    source=f"{SU}, §Feed-forward gradient, below the second equation",
    statement="φ(λx) = λφ(x) for λ > 0, approximately, for ReLU and its variants Swish and GELU.",
    conditions="standard normal pre-activations of gain λ from 10⁻⁶ to 10⁶",
    recorded=(
        Ruling(RELU, Verdict.PROVED),
        Ruling(SMOOTH, Verdict.REFUTED),
        Ruling(ORDER, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "ReLU is positively homogeneous, Swish and GELU are not: φ(λx)/λ misses φ(x) by up to "
        "40 % of its rms for λ between 1/4 and 2. In order the claim holds at every scale: rms "
        "φ(λz)/λ stays between 1/2 and 1/√2, and the local degree between 1 and 1.17. The two "
        "limits are different functions: a branch initialised with a small gain is linear (φ(x) "
        "≈ x/2), not gated."
    ),
    corrected="rms φ(λz)/λ is of the order of rms φ(z) for every λ > 0: between 1/2 and 1/√2 for z "
    "normal, with the linear x/2 as the limit λ → 0 and ReLU as that of λ → ∞.",
    counterexample="GELU at x = 1, λ = 2: φ(2) = 1.954, 2φ(1) = 1.683; at x = −1: φ(−2) = "
    "−0.046, 2φ(−1) = −0.317.",
    check=check,
)
