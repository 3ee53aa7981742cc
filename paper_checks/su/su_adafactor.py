"""Adafactor belongs to LAMB's class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import MARGIN, proved, seen

if TYPE_CHECKING:
    import numpy as np

    from paper_checks.shared.laboratory import Settings
    from paper_checks.shared.stacks import Net

DEGREES, ABOVE, STACK, BELOW, CLASS, DEPTH = (
    "degrees (0, 1) above its floor: LAMB's, and its rule",
    "torch's Adafactor: the first update is η·rms(θ) an entry for rms(θ) ≥ 10⁻³",
    "torch's Adafactor moves a stack's output alike at every depth under LAMB's rule",
    "the update is η·rms(θ) at every rms(θ)",
    "below the floor it is Adam's class: under LAMB's rule the output's change grows as N^{1/2}, "
    "under Adam's it is constant",
    "LAMB's rule itself leads below the floor: at N = 10⁶/(d + m) layers, where the relative "
    "update begins to grow as N^{1/2}",
)


def check(context: Context) -> tuple[Finding, ...]:
    """Degrees from the update expression; torch's own Adafactor on matrices and on stacks."""
    import torch

    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.symbolic.derive import derive
    from deepnet_theory.symbolic.implications.end_of_regime import crossings
    from deepnet_theory.symbolic.rule.problem import Problem
    from deepnet_theory.symbolic.rule.solved_rule import solve_rule
    from paper_checks.shared.stacks import Net, depths, exponent, on_the_exponent, settings
    from paper_checks.shared.verdicts import worst

    selections = {n: Selection(optimizer=n) for n in ("lamb", "adafactor")}
    rules = {n: solve_rule(s).entries[0] for n, s in selections.items()}
    degrees = {n: Problem(s).degrees for n, s in selections.items()}
    same = all(
        getattr(rules["lamb"], k) == getattr(rules["adafactor"], k) for k in ("alpha", "beta")
    ) and all(getattr(d, k) == v for d in degrees.values() for k, v in (("p", 0), ("q", 1)))

    generator = torch.Generator().manual_seed(context.seed)
    d, m = context.pick((32, 64), (128, 256))
    rows = []
    for size in torch.logspace(-5, 0, context.pick(11, 26)).tolist():
        for rank in ("one", "full"):
            theta, g, other = (
                torch.randn(shape, generator=generator, dtype=torch.float64)
                for shape in ((d, m), (d, m), (d, 1))
            )
            theta *= size
            moved = _step(theta.clone(), g if rank == "full" else other * g[:1]) - theta
            rms = float(theta.square().mean().sqrt())
            update = float(moved.square().mean().sqrt()) / ETA
            rows.append({"rms(theta)": rms, "rank of g": rank, "rms(update)/eta": update})
    off = {
        above: max(
            abs(r["rms(update)/eta"] / r["rms(theta)"] - 1)
            for r in rows
            if (r["rms(theta)"] >= 1e-3) == above
        )
        for above in (True, False)
    }

    at, s = depths(context), settings(context, dtype="float64", width=32, tokens=16, seeds=4)
    lamb, adam = Net("1", "(2*N)**(-1/2)"), Net("(2*N)**(1/2)", "(2*N)**(-1/2)")
    above, grows, constant = (
        exponent(label, at, _updates(net, at, s, floor))
        for label, net, floor in (
            ("LAMB's rule, floor 10⁻³", lamb, 1e-3),
            ("LAMB's rule, floor 1", lamb, 1.0),
            ("Adam's rule, floor 1", adam, 1.0),
        )
    )

    crossing = next(c for c in crossings(Problem(selections["adafactor"])) if c.matrix == "fc1")
    layers = {f"d = {w}, m = {4 * w}": round(crossing.at(w, 4 * w)) for w in (64, 512, 1024, 4096)}
    width, relative = context.pick(128, 512), {}
    cross = crossing.at(width, 4 * width)
    for times in (0.25, 1.0, 4.0, 16.0):
        theta = torch.empty(4 * width, width, dtype=torch.float64)
        gain = (2 * times * cross) ** -0.5
        torch.nn.init.xavier_normal_(theta, gain, generator=generator)
        g = torch.randn(theta.shape, generator=generator, dtype=torch.float64)
        moved = _step(theta.clone(), g) - theta
        relative[times] = float(moved.norm() / theta.norm()) / ETA
    missed = max(abs(r / max(1.0, t**0.5) - 1) for t, r in relative.items())
    return (
        proved(
            DEGREES,
            same,
            "the degrees and the derived rule are LAMB's",
            rule=[rules["adafactor"].alpha, rules["adafactor"].beta],
            remarks=derive(selections["adafactor"]).remarks,
        ),
        seen(
            ABOVE,
            off[True] < MARGIN,
            f"within {off[True]:.1%}, for gradients of rank one and of full rank",
            steps=rows,
            seed=context.seed,
        ),
        on_the_exponent(STACK, [above], 0.0, [("Adam's class", 0.5), ("SGD", -0.5)]),
        seen(
            BELOW,
            off[False] < MARGIN,
            f"below 10⁻³ it is up to {1 + off[False]:.0f} times that: 10⁻³ η an entry",
        ),
        worst(
            (
                on_the_exponent(CLASS, [grows], 0.5, [("LAMB's class", 0.0)]),
                on_the_exponent(
                    CLASS,
                    [constant],
                    0.0,
                    [("LAMB's class", -0.5)],
                    under_lambs_rule=grows.to_dict(),
                ),
            )
        ),
        seen(
            DEPTH,
            missed < MARGIN,
            f"relative update of a Xavier matrix of width {width} at 1/4, 1, 4 and 16 times that "
            f"depth: {', '.join(f'{r:.2f} η' for r in relative.values())}",
            relative_updates=relative,
            layers_at_which_the_floor_is_crossed=layers,
        ),
    )


ETA = 1e-4


def _step(theta: torch.Tensor, g: torch.Tensor, floor: float = 1e-3) -> torch.Tensor:  # noqa: F821
    """A first step of torch's Adafactor, in place."""
    import torch

    parameter = torch.nn.Parameter(theta)
    parameter.grad = g
    torch.optim.Adafactor([parameter], lr=ETA, eps=(None, floor), weight_decay=0.0).step()
    return parameter.detach()


def _updates(net: Net, at: Sequence[int], s: Settings, floor: float) -> np.ndarray:
    """‖ΔF‖/η per token after that step of every matrix of every seed: (seeds, depths)."""
    import torch

    from paper_checks.shared.stacks import backward

    columns = []
    for depth in at:
        trial = net.trial(depth, s)
        p = backward(trial)
        for (parameter, _), g in zip(trial.parameters(), p.gradients, strict=True):
            for theta, own in zip(parameter.detach(), g.g, strict=True):
                _step(theta, own, floor)  # a view: the stack is stepped
        with torch.no_grad():
            change = (trial.output() - p.states[-1]) / ETA
        columns.append(change.norm(dim=-1).flatten(1).mean(1))
    return torch.stack(columns, dim=1).numpy()


CLAIM = Claim(
    name="su-adafactor",
    source=f"{SU}, §Multiple optimizers, the two classes",
    statement="Adafactor corrects the learning rate by the parameter's norm and so belongs to "
    "LAMB's class.",
    conditions="relative steps off, weight decay 0, first step; torch.optim.Adafactor on "
    "matrices with rms(θ) from 10⁻⁵ to 1 and on post-LN encoders of 12 to 144 layers",
    recorded=(
        Ruling(DEGREES, Verdict.PROVED),
        Ruling(ABOVE, Verdict.SUPPORTED),
        Ruling(STACK, Verdict.SUPPORTED),
        Ruling(BELOW, Verdict.REFUTED),
        Ruling(CLASS, Verdict.SUPPORTED, corrected=True),
        Ruling(DEPTH, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "Adafactor with relative steps off has LAMB's degrees and LAMB's rule as long as rms(θ) "
        "> 10⁻³, its default floor: there torch's Adafactor moves a stack's output alike at "
        "every depth. Below the floor it is a sign step of fixed size, Adam's class, and under "
        "LAMB's rule its update grows as N^{1/2}. LAMB's rule drives deep or wide stacks there "
        "by itself: with hidden width 4d the feed-forward matrices cross the floor at 391 layers "
        "for d = 512 and at 49 for d = 4096."
    ),
    counterexample=(
        "torch's Adafactor: a 1 × 1 matrix θ = 10⁻⁵ takes the step 10⁻³ η, a hundred times "
        "η·rms(θ)."
    ),
    corrected=(
        "The step is η·max(10⁻³, rms(θ)) an entry: LAMB's class above the floor, Adam's below; "
        "the depth of crossing is N = 10⁶/(d+m) under λ = (2N)^{−1/2}."
    ),
    check=check,
    seconds=3,
)
