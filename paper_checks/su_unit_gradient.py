"""Xavier and normalisation give every matrix a gradient norm of O(1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import interval_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from paper_checks._stack import Exponent, Pass

TOP, BOTTOM, QUERY, PRE_TOP, PRE_BOTTOM, LAW = (
    "plain post-LN: the top layer's scaled matrices",
    "plain post-LN: the bottom layer's scaled matrices, as a bound",
    "plain post-LN: query and key of the top layer",
    "plain pre-LN: the top layer's scaled matrices",
    "plain pre-LN: the bottom layer's scaled matrices",
    "plain pre-LN: the top layer's gradients fall as N^{−1/2}",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Exponents of ‖∂L/∂W‖ in depth at the top and at the bottom of stacks without a rule."""
    from paper_checks._stack import Net, exponent, many_per_depth, on_the_exponent, variations

    at = context.pick((8, 32, 128), (8, 32, 128))
    scaled = ("value", "output", "fc1", "fc2")

    def size(layer: int, *names: str) -> Callable[[Pass], Tensor]:
        def of(p: Pass) -> Tensor:
            top = max(g.description.layer for g in p.gradients)
            chosen = [
                g for g in p.of(*names) if g.description.layer == (top if layer < 0 else layer)
            ]
            return (sum(g.norm().double() ** 2 for g in chosen) / len(chosen)).sqrt()

        return of

    conditions = variations(context, width=64, seeds=16)
    wanted = {
        "post-ln": {
            "top": size(-1, *scaled),
            "bottom": size(0, *scaled),
            "query": size(-1, "query", "key"),
        },
        "pre-ln": {"pre top": size(-1, *scaled), "pre bottom": size(0, *scaled)},
    }
    found: dict[str, list[Exponent]] = {}
    for placement, quantities in wanted.items():
        for label, s in conditions.items():
            for key, values in many_per_depth(Net(placement=placement), at, s, quantities).items():
                found.setdefault(key, []).append(exponent(label, at, values))

    def row(about: str, key: str, floor: float, ceiling: float) -> Finding:
        low = min(e.interval.low for e in found[key])
        high = max(e.interval.high for e in found[key])
        return interval_within(
            about,
            low,
            high,
            floor,
            ceiling,
            f"the exponent is in [{low:+.2f}, {high:+.2f}] over all conditions",
            {"measured": [e.to_dict() for e in found[key]], "seed": context.seed},
        )

    return (
        row(TOP, "top", -0.1, 0.1),
        row(BOTTOM, "bottom", -1.5, 0.25),
        row(QUERY, "query", -0.1, 0.1),
        row(PRE_TOP, "pre top", -0.1, 0.1),
        row(PRE_BOTTOM, "pre bottom", -0.25, 0.25),
        on_the_exponent(LAW, found["pre top"], -0.5, [("constant", 0.0)], 0.15),
    )


CLAIM = Claim(
    name="su-unit-gradient",
    source=f"{SU}, §Increment explosion",
    statement="With Xavier initialisation and normalisation every matrix can be given a "
    "gradient norm of O(1).",
    conditions="post-LN and pre-LN encoders with α = λ = 1, 8 to 128 layers, width 64",
    recorded=(
        Ruling(TOP, Verdict.SUPPORTED),
        Ruling(BOTTOM, Verdict.SUPPORTED),
        Ruling(QUERY, Verdict.REFUTED),
        Ruling(PRE_TOP, Verdict.REFUTED),
        Ruling(PRE_BOTTOM, Verdict.SUPPORTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "Half right. In plain post-LN the top layer's value, output and feed-forward gradients "
        "are of order one at every depth and the bottom layer's fall slowly (N^{−0.4 ± 0.3}); "
        "in plain pre-LN it is the bottom layer that keeps order one, while the top layer's "
        "gradients fall as N^{−1/2}. Query and key of upper post-LN layers have no gradient to "
        "speak of, 10⁻⁸ beyond 30 layers, because all tokens have become equal."
    ),
    counterexample=(
        "Plain post-LN, text, width 64, 32 layers: ‖∂L/∂W_q‖ of the top layer is 6·10⁻⁸ beside "
        "1.2 for the scaled matrices. Plain pre-LN: 0.48, 0.24 and 0.12 for the top layer at 8, "
        "32 and 128 layers."
    ),
    corrected=(
        "Plain pre-LN: ‖∂L/∂W‖ ~ l^{−1/2} with the layer l; plain post-LN: O(1) for the scaled "
        "matrices, zero in order for query and key once the tokens have collapsed."
    ),
    check=check,
    seconds=4,
)
