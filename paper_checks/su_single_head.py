"""One head and no 1/√d scale suffice for the analysis."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import measured

HEADS, SCALE, SIZE, KEYS, KEPT = (
    "the exponents in depth are the same with 1 and with 8 heads",
    "and without the scale 1/√h of the scores",
    "heads change ‖ΔF‖ by a constant factor below 2",
    "without the scale the increment grows by less than a factor 2",
    "without it the query and key gradients grow by a factor of the order √h",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Exponents under three rules with heads and scale varied; scale is removed from the query."""
    import numpy as np

    from paper_checks._rules import PUBLISHED
    from paper_checks._stack import (
        Net,
        Pass,
        absolute_gradient,
        depths,
        exponent,
        on_the_exponent,
        per_depth,
        settings,
        squared_gradient,
    )

    at = depths(context)
    quantities = {"sgd": squared_gradient, "adam": absolute_gradient}
    heads, scales, factor, unscaled = [], [], 1.0, 1.0
    data = context.pick(("text",), ("text", "gaussian:0"))
    for name, quantity in quantities.items():
        net = Net(*PUBLISHED[name])
        for d in data:
            means = []
            for h in context.pick((1, 8), (1, 2, 4, 8, 16)):
                s = settings(context, heads=h, data=d, seeds=16)
                values = per_depth(net, at, s, quantity)
                heads.append(exponent(f"{name}, {h} heads, {d}", at, values))
                means.append(values.mean())
            factor = max(factor, max(means) / min(means))
            s = settings(context, heads=1, data=d, seeds=16)
            root = s.width**0.5
            values = per_depth(
                net, at, s, quantity, scale=lambda p, root=root: root if p.name == "query" else 1.0
            )
            unscaled = max(unscaled, float(values.mean()) / means[0])
            scales.append(exponent(f"{name}, 1 head, no scale, {d}", at, values))

    def keys(p: Pass) -> "object":
        return sum(g.norm().double() ** 2 for g in p.of("key")).sqrt()

    s = settings(context, heads=1, seeds=16)
    net = Net(*PUBLISHED["sgd"])
    with_scale = per_depth(net, at[:1], s, keys).mean()
    without = per_depth(
        net, at[:1], s, keys, scale=lambda p: s.width**0.5 if p.name == "query" else 1.0
    )
    grown = float(without.mean() / with_scale)
    return (
        on_the_exponent(HEADS, heads, 0.0, tolerance=0.1),
        on_the_exponent(SCALE, scales, 0.0, tolerance=0.1),
        measured(SIZE, factor < 2, f"‖∇L‖² and ‖∇L‖₁ differ by at most a factor {factor:.2f}"),
        measured(KEYS, 1 < unscaled < 2, f"it grows by up to a factor {unscaled:.2f}"),
        measured(
            KEPT,
            0.3 < grown / s.width**0.5 < 3,
            f"by {grown:.1f}, √h is {s.width**0.5:.1f}: still a constant in depth",
            {"width of the head": s.width, "seed": context.seed, "rms": float(np.sqrt(s.width))},
        ),
    )


CLAIM = Claim(
    name="su-single-head",
    source=f"{SU}, §Self-attention, above the first equation",
    statement="For an analysis of orders a single head suffices, and the scale of the "
    "attention scores can be left out.",
    conditions="post-LN encoder under SGD's and Adam's rules, 1 to 16 heads, 12 to 144 layers",
    recorded=(
        Ruling(HEADS, Verdict.SUPPORTED),
        Ruling(SCALE, Verdict.SUPPORTED),
        Ruling(SIZE, Verdict.SUPPORTED),
        Ruling(KEYS, Verdict.SUPPORTED),
        Ruling(KEPT, Verdict.SUPPORTED),
    ),
    finding=(
        "Both simplifications are harmless for exponents in depth: with 1 to 8 heads the "
        "increments agree within 1 %, and without the scale 1/√h of the scores the exponents "
        "stay within 0.05 of 0. The scale is not immaterial otherwise: without it query and key "
        "gradients grow by about √h (a factor 4 at head width 32) and the increment by a third."
    ),
    check=check,
    seconds=5,
)
