"""K is a constant number of matrices; width is absorbed by Xavier."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import interval_within

SGD, ADAM, LAW, OUTPUT = (
    "the increment of SGD does not grow with the width",
    "the increment of Adam does not grow with the width",
    "Adam's increment grows about in proportion to the width (‖g‖₁ ~ √numel·‖g‖)",
    "LAMB's increment does not grow with the width",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Increments of the loss at one depth against the width, with and without a rule."""
    from dataclasses import replace

    import numpy as np

    from paper_checks._stack import (
        Net,
        Pass,
        absolute_gradient,
        exponent,
        per_depth,
        settings,
        squared_gradient,
    )

    widths = context.pick((32, 64, 128), (32, 64, 128, 256))
    base = settings(context, tokens=16, batch=2, seeds=8, heads=4)

    def lamb(p: Pass) -> "object":
        return sum(
            g.theta.flatten(1).norm(dim=1).double()
            * g.g.double().abs().flatten(1).sum(1)
            / g.g[0].numel() ** 0.5
            for g in p.gradients
        )

    nets = {
        "SGD's rule": Net("(2*N)**(1/4)", "(2*N)**(-1/4)"),
        "pre-LN with LAMB's rule": Net("1", "(2*N)**(-1/2)", placement="pre-ln"),
    }
    data = context.pick(("text",), ("text", "gaussian:0"))
    found = {}
    for name, quantity in (("sgd", squared_gradient), ("adam", absolute_gradient), ("lamb", lamb)):
        found[name] = [
            exponent(
                f"{label}, {d}",
                widths,
                np.stack(
                    [
                        per_depth(
                            net, (context.pick(8, 16),), replace(base, width=w, data=d), quantity
                        )[:, 0]
                        for w in widths
                    ],
                    axis=1,
                ),
            )
            for label, net in nets.items()
            for d in data
        ]

    def row(about: str, name: str, floor: float, ceiling: float) -> Finding:
        low = min(e.interval.low for e in found[name])
        high = max(e.interval.high for e in found[name])
        return interval_within(
            about,
            low,
            high,
            floor,
            ceiling,
            f"the exponent in width is in [{low:+.2f}, {high:+.2f}]",
            {"measured": [e.to_dict() for e in found[name]], "seed": context.seed},
        )

    return (
        row(SGD, "sgd", -0.5, 0.2),
        row(ADAM, "adam", -0.5, 0.2),
        row(LAW, "adam", 0.8, 1.1),
        row(OUTPUT, "lamb", -0.5, 0.6),
    )


CLAIM = Claim(
    name="su-width",
    source=f"{SU}, reply of 2023-05",
    statement=(
        "K counts matrices and is constant; width is adapted to by Xavier's initialisation, so that it "
        "causes no increment explosion."
    ),
    conditions="post-LN and pre-LN with a rule, 8 and 16 layers, widths 32 to 256 at fixed heads and tokens",
    recorded=(
        Ruling(SGD, Verdict.SUPPORTED),
        Ruling(ADAM, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
        Ruling(OUTPUT, Verdict.SUPPORTED),
    ),
    finding="pending",
    counterexample="pending",
    corrected="pending",
    check=check,
    seconds=4,
)
