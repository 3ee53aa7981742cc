"""The check that the feed-forward and the attention gradient share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Context, Finding
from paper_checks.shared.verdicts import MARGIN, at_most, exponent, within

if TYPE_CHECKING:
    import numpy as np

    from paper_checks.shared.laboratory import Settings

ORDER, PROBE, BOUND, EXACT, LAW = (
    "order of ‖∂L/∂W‖ for a small branch weight",
    "order of |∂L/∂λ| for a small branch weight",
    "as a bound, at any branch weight",
    "as an order (Θ) it fails where the branch is not small",
    "with √(α² + c²λ₁²λ₂²) in place of α, for one sublayer at any branch weight",
)
KNOBS = ("λ₁", "λ₂", "α")
POWERS = ((0.0, 1.0, -1.0), (1.0, 0.0, -1.0))  # of ∂L/∂λ₁ and ∂L/∂λ₂ in λ₁, λ₂ and α


def check_branch(
    context: Context, layer: str, first: str, second: str, conditions: Mapping[str, Settings]
) -> tuple[Finding, ...]:
    """Exponents in (λ₁, λ₂, α) where r = λ₁λ₂/α ≤ 1/16, and the gradient where it is not small."""
    import numpy as np

    from paper_checks.shared.scan import gradients, grid, knob_exponents
    from paper_checks.shared.stacks import settings
    from paper_checks.shared.streams import mean, power

    names = (first, second)
    small = grid((0.25, 0.5, 1.0), (16.0, 32.0, 64.0))
    fits, powers = {"gradient": {}, "probe": {}}, {}  # type: ignore[var-annotated]
    for label, s in conditions.items():
        found = gradients(layer, first, second, small, context.pick(4, 16), s)
        for kind, kept in fits.items():
            for name, wanted in zip(names, POWERS, strict=True):
                keys = [f"{kind} of {name} in {knob}, {label}" for knob in KNOBS]
                fitted = knob_exponents(small, found[f"{kind} {name}"])
                kept |= dict(zip(keys, fitted, strict=True))
                powers |= dict(zip(keys, wanted, strict=True))
    # One sublayer at branch weights from 1/64 to 64. The law is one of wide networks: the claim
    # on feed-forward gradients measures its error by width.
    law = settings(context, width=64, tokens=32, seeds=64)
    lams = np.array([0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
    found = gradients(layer, first, second, [(lam, lam, 1.0) for lam in lams.tolist()], 1, law)
    ratio = {n: found[f"gradient {n}"] / lams for n in names}
    ratio = {n: v / v[:, :1] for n, v in ratio.items()}  # of its small-weight value, by seed
    corrected = np.sqrt(1 + _rms(layer, law)[:, None] ** 2 * lams**4)
    plain, mended = (
        {
            f"{n}, branch weight {lam * lam:g}": mean((v * factor)[:, i])
            for n, v in ratio.items()
            for i, lam in enumerate(lams)
        }
        for factor in (1.0, corrected)
    )
    heavy = {n: power(lams[lams > 1] ** 2, v[:, lams > 1]) for n, v in ratio.items()}
    what = "‖∂L/∂W‖·α/λ against its value at branch weight 1/64"
    return (
        exponent(ORDER, fits["gradient"], powers),
        exponent(PROBE, fits["probe"], powers),
        at_most(BOUND, plain, 1.0, what),
        at_most(EXACT, heavy, -MARGIN, "its exponent in branch weights of 4 to 64", 0.0),
        within(LAW, mended, 1 - MARGIN, 1 + MARGIN, f"{what}, by the law"),
    )


def _rms(layer: str, given: Settings) -> np.ndarray:
    """Each seed's rms of the branch with its gains taken out, beside an input of rms 1."""
    from paper_checks.shared.stacks import Net, backward

    p = backward(Net(layer=layer).trial(1, given))
    return p.branches[0].pow(2).flatten(1).mean(dim=1).sqrt().numpy()
