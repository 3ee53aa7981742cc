"""Adafactor belongs to LAMB's class."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks._sources import SU
from paper_checks._verdicts import proved, seen

DEGREES, ABOVE, BELOW, DEPTH = (
    "degrees (0, 1) above its floor: LAMB's, and its rule",
    "torch's Adafactor: the first update is proportional to rms(θ) above 10⁻³",
    "at every rms(θ)",
    "below rms(θ) = 10⁻³ it is Adam's class: the update no longer depends on θ",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Degrees from the update expression; torch's own Adafactor on matrices of many sizes."""
    import numpy as np
    import torch

    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derive import derive
    from deepnet_theory.symbolic.solved_rule import solve_rule

    rules = {n: solve_rule(Selection(optimizer=n)).entries[0] for n in ("lamb", "adafactor")}
    same = (rules["lamb"].alpha, rules["lamb"].beta) == (
        rules["adafactor"].alpha,
        rules["adafactor"].beta,
    )
    remarks = derive(Selection(optimizer="adafactor")).remarks
    generator = torch.Generator().manual_seed(context.seed)
    sizes = np.logspace(-5, 0, context.pick(11, 26))
    d, m = context.pick((32, 64), (128, 256))
    steps = []
    for size in sizes:
        theta = torch.nn.Parameter(
            size * torch.randn(d, m, generator=generator, dtype=torch.float64)
        )
        before = theta.detach().clone()
        theta.grad = torch.randn(d, m, generator=generator, dtype=torch.float64) * 1e-2
        torch.optim.Adafactor([theta], lr=1e-2, weight_decay=0.0).step()
        steps.append(float((theta.detach() - before).norm() / 1e-2 / (d * m) ** 0.5))
    steps = np.array(steps)
    above, below = sizes > 2e-3, sizes < 5e-4
    slope_above = float(np.polyfit(np.log(sizes[above]), np.log(steps[above]), 1)[0])
    slope_below = float(np.polyfit(np.log(sizes[below]), np.log(steps[below]), 1)[0])
    crossing = {f"width {w}": round(0.5 * (2 / (5 * w)) / 1e-6) for w in (64, 512, 1024, 4096)}
    return (
        proved(
            DEGREES,
            same,
            "the derived rule is LAMB's",
            **{"rule": [rules["adafactor"].alpha, rules["adafactor"].beta], "remarks": remarks},
        ),
        seen(
            ABOVE,
            abs(slope_above - 1) < 0.02,
            f"exponent {slope_above:.3f} in rms(θ)",
            **{
                "rms(theta)": sizes.tolist(),
                "rms(update)/eta": steps.tolist(),
                "seed": context.seed,
            },
        ),
        seen(
            BELOW, abs(slope_below - 1) < 0.02, f"exponent {slope_below:.3f} in rms(θ) below 5·10⁻⁴"
        ),
        seen(
            DEPTH,
            abs(slope_below) < 0.02,
            "under LAMB's rule fc1 and fc2 of a network with hidden width 4d cross the floor at "
            f"N = {crossing['width 512']} layers for d = 512, {crossing['width 4096']} for d "
            f"= 4096",
            **{"layers at which the floor is crossed": crossing},
        ),
    )


CLAIM = Claim(
    name="su-adafactor",
    source=f"{SU}, §Multiple optimizers, the two classes",
    statement="Adafactor corrects the learning rate by the parameter's norm and so belongs to "
    "LAMB's class.",
    conditions="relative steps off, weight decay 0, first step; torch.optim.Adafactor, rms(θ) "
    "from 10⁻⁵ to 1",
    recorded=(
        Ruling(DEGREES, Verdict.PROVED),
        Ruling(ABOVE, Verdict.SUPPORTED),
        Ruling(BELOW, Verdict.REFUTED),
        Ruling(DEPTH, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "Adafactor with relative steps off has LAMB's degrees and LAMB's rule as long as rms(θ) "
        "> 10⁻³, its default floor. Below that it is a sign step of fixed size: Adam's class. "
        "LAMB's rule drives deep or wide stacks there by itself: with hidden width 4d the "
        "feed-forward matrices cross the floor at 391 layers for d = 512 and at 49 for d = "
        "4096."
    ),
    counterexample=(
        "torch's Adafactor: a matrix with rms(θ) = 10⁻⁴ and one with 10⁻⁵ take the same step, "
        "10⁻³ η an entry."
    ),
    corrected=(
        "The step is η·max(10⁻³, rms(θ)) an entry: LAMB's class above the floor, Adam's below; "
        "the depth of crossing is N = 10⁶/(d+m) under λ = (2N)^{−1/2}."
    ),
    check=check,
    seconds=0.5,
)
