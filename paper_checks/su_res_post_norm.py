"""x + LN(f(x)): λ does not change the branch's magnitude."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import seen

BRANCH, GRADIENT, LAW, ALPHA, LAMB = (
    "λ does not change the branch",
    "so λ does not matter for the update",
    "‖∂L/∂W‖ ~ 1/(αλ): the update goes as λ^{−2} under SGD and λ^{−1} under Adam",
    "λ = 1 and α = 2N keep Adam's update constant in depth",
    "under LAMB λ does not matter for the update of the scaled matrices",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Outputs and updates of res-post-LN stacks against λ; Adam's exponent with α = 2N."""
    import numpy as np
    import torch

    from paper_checks._stack import (
        Net,
        depths,
        exponent,
        model_updates,
        on_the_exponent,
        settings,
        variations,
    )

    s = settings(context)
    lams = (0.25, 0.5, 1.0, 2.0, 4.0)
    place = "res-post-ln"

    def scaled(d: "object") -> bool:
        return d.name in ("value", "output", "fc1", "fc2")

    outputs = []
    for lam in lams:
        trial = Net("16", repr(lam), placement=place).trial(8, s)
        with torch.no_grad():
            outputs.append(trial.output())
    off = max(float((o - outputs[2]).norm() / outputs[2].norm()) for o in outputs)
    slopes = {}
    for name in ("sgd", "adam", "lamb"):
        values = [
            model_updates(Net("16", repr(lam), name, place), (8,), s, scaled).mean() for lam in lams
        ]
        slopes[name] = float(np.polyfit(np.log(lams), np.log(values), 1)[0])
    at = depths(context)
    adam = [
        exponent(n, at, model_updates(Net("2*N", "1", "adam", place), at, v))
        for n, v in variations(context).items()
    ]
    return (
        seen(
            BRANCH,
            off < 1e-2,
            f"the output changes by at most {off:.1e} for λ from 1/4 to 4 (LN's ε)",
            **{"lambda": lams},
        ),
        seen(
            GRADIENT,
            all(abs(v) < 0.1 for v in slopes.values()),
            f"‖ΔF‖/η has the exponents {slopes['sgd']:.2f} (SGD), {slopes['adam']:.2f} (Adam), "
            f"{slopes['lamb']:.2f} (LAMB) in λ",
            **{"exponents in lambda": slopes, "seed": context.seed},
        ),
        seen(
            LAW,
            abs(slopes["sgd"] + 2) < 0.05 and abs(slopes["adam"] + 1) < 0.05,
            f"measured {slopes['sgd']:.3f} and {slopes['adam']:.3f}",
        ),
        on_the_exponent(ALPHA, adam, 0.0, [("post-LN's rule", 0.5)]),
        seen(LAMB, abs(slopes["lamb"]) < 0.05, f"the exponent in λ is {slopes['lamb']:.3f}"),
    )


CLAIM = Claim(
    name="su-res-post-norm",
    source=f"{SU}, reply on SwinV2's res-post-norm, 2023-08",
    statement=(
        "In x + LN(f(x))/α the gain λ does not affect the branch's magnitude, so take λ = 1 "
        "and set α."
    ),
    conditions="res-post-LN encoder with final norm, λ from 1/4 to 4; Adam with α = 2N at 12 "
    "to 144 layers",
    recorded=(
        Ruling(BRANCH, Verdict.SUPPORTED),
        Ruling(GRADIENT, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
        Ruling(ALPHA, Verdict.SUPPORTED),
        Ruling(LAMB, Verdict.SUPPORTED),
    ),
    finding=(
        "λ does drop out of the forward pass of res-post-norm, and λ = 1 with α = 2N does "
        "balance Adam. But λ is not without effect: behind a norm the gradient goes as 1/(αλ), "
        "so a smaller gain makes the update larger, as λ^{−2} under SGD and λ^{−1} under Adam. "
        "Only for LAMB is λ immaterial."
    ),
    counterexample=(
        "λ = 1/4 in place of 1, same α: ‖ΔF‖/η is 16 times as large under SGD, 4 times under "
        "Adam, with the same output."
    ),
    corrected=(
        "‖∂L/∂W‖ ~ 1/(αλ) for a branch that ends in a norm: fix λ = 1 because it sets the unit "
        "of the learning rate, not because it is immaterial."
    ),
    check=check,
    seconds=2,
)
