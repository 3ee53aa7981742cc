"""x + LN(f(x)): λ does not change the branch's magnitude."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import MARGIN, seen, within, worst

if TYPE_CHECKING:
    from torch import Tensor

    from paper_checks.shared.laboratory import Settings

MAGNITUDE, BRANCH, GRADIENT, LAW, ALPHA, LAMB = (
    "λ does not change the branch's magnitude, with ReLU or GELU",
    "λ does not change the branch",
    "so λ does not matter for the update",
    "‖∂L/∂W‖ ~ 1/(αλ): the update goes as λ^{−2} under SGD and λ^{−1} under Adam",
    "λ = 1 and α = 2N keep Adam's update constant in depth",
    "under LAMB λ does not matter for the update of the scaled matrices",
)
LAMS = (0.25, 0.5, 1.0, 2.0, 4.0)
PLACE = "res-post-ln"
DATA = ("independent tokens", "correlated tokens", "width 128")


def check(context: Context) -> tuple[Finding, ...]:
    """Outputs and updates of res-post-LN stacks against λ; Adam's exponent with α = 2N."""
    import numpy as np

    from paper_checks.shared.laboratory import t_interval
    from paper_checks.shared.stacks import (
        Net,
        depths,
        exponent,
        model_updates,
        on_the_exponent,
        settings,
        variations,
    )

    sizes, off = {}, {}
    for activation in ("relu", "gelu"):
        s = settings(context, activation=activation)
        found = [_branches(lam, s) for lam in LAMS]
        base, whole = found[LAMS.index(1.0)]
        off[activation] = max(float((o - whole).norm() / whole.norm()) for _, o in found)
        for lam, (size, _) in zip(LAMS, found, strict=True):
            sizes[f"{activation}, {lam:g}"] = t_interval((size / base).numpy())
    slopes: dict[str, list] = {name: [] for name in ("sgd", "adam", "lamb")}
    for label, s in variations(context, DATA).items():
        for name, found_slopes in slopes.items():
            values = [
                model_updates(
                    Net("16", repr(lam), name, PLACE),
                    (8,),
                    s,
                    lambda d: d.name in ("value", "output", "fc1", "fc2"),
                )
                for lam in LAMS
            ]
            found_slopes.append(exponent(f"{name}, {label}", LAMS, np.concatenate(values, axis=1)))
    at = depths(context)
    adam = [
        exponent(n, at, model_updates(Net("2*N", "1", "adam", PLACE), at, v))
        for n, v in variations(context).items()
    ]
    return (
        within(MAGNITUDE, sizes, 1 - MARGIN, 1 + MARGIN, "rms beside λ = 1", **off),
        seen(
            BRANCH,
            off["relu"] < 1e-2,  # LN's ε is 10⁻⁵ beside a variance of 4⁻⁴ at λ = 1/4
            f"the output changes by at most {off['relu']:.1e} for λ from 1/4 to 4 with ReLU "
            f"(LN's ε), by {off['gelu']:.2f} with GELU, which is not homogeneous",
            **{"lambda": LAMS, "change of the output": off},
        ),
        on_the_exponent(GRADIENT, slopes["sgd"] + slopes["adam"], 0.0, seed=context.seed),
        worst(
            (
                on_the_exponent(LAW, slopes["sgd"], -2.0, [("no effect", 0.0)]),
                on_the_exponent(LAW, slopes["adam"], -1.0, [("no effect", 0.0)]),
            )
        ),
        on_the_exponent(ALPHA, adam, 0.0, [("post-LN's rule", 0.5)]),
        on_the_exponent(LAMB, slopes["lamb"], 0.0, [("Adam's", -1.0)]),
    )


def _branches(lam: float, s: Settings) -> tuple[Tensor, Tensor]:
    """The rms of the branches' contributions x_{l+1} − x_l of every seed, and the output."""
    import itertools

    import torch

    from paper_checks.shared.stacks import Net

    trial = Net("16", repr(lam), placement=PLACE).trial(8, s)
    states: list[Tensor] = [trial.inputs[-1]]
    handles = [
        residual.register_forward_hook(lambda m, a, out: states.append(out))
        for residual in trial.model.residuals()
    ]
    with torch.no_grad():
        output = trial.output()
    for handle in handles:
        handle.remove()
    steps = torch.stack([b - a for a, b in itertools.pairwise(states)], dim=1)
    return steps.double().square().flatten(1).mean(1).sqrt(), output


CLAIM = Claim(
    name="su-res-post-norm",
    source=f"{SU}, reply on SwinV2's res-post-norm, 2023-08",
    statement=(
        "In x + LN(f(x))/α the gain λ does not affect the branch's magnitude, so take λ = 1 "
        "and set α."
    ),
    conditions="res-post-LN encoder with final norm, λ from 1/4 to 4 at 8 layers, text, "
    "independent and correlated tokens, widths 32 to 128; Adam with α = 2N at 12 to 144 layers",
    recorded=(
        Ruling(MAGNITUDE, Verdict.SUPPORTED),
        Ruling(BRANCH, Verdict.SUPPORTED),
        Ruling(GRADIENT, Verdict.REFUTED),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
        Ruling(ALPHA, Verdict.SUPPORTED),
        Ruling(LAMB, Verdict.SUPPORTED),
    ),
    finding=(
        "λ leaves the branch's magnitude alone in res-post-norm, with ReLU the branch itself, and "
        "λ = 1 with α = 2N does balance Adam. But λ is not without effect: behind a norm the "
        "gradient goes as 1/(αλ), so a smaller gain makes the update larger, as λ^{−2} under SGD "
        "and λ^{−1} under Adam. Only for LAMB is λ immaterial."
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
    full_seconds=19,
)
