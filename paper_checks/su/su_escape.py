"""With α = 1, λ = (2N)^{−1/2}, λ leaves that order within a few SGD steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import MARGIN, at_most, exponent, numbers, within

if TYPE_CHECKING:
    from torch import Tensor

    from paper_checks.shared.laboratory import Trial

ESCAPE, KEPT, SINGLE, FIRST, SECOND = (
    "λ leaves the order (2N)^{−1/2} towards 1: its mean growth λ_t/λ_0 is as N^{1/2}",
    "the mean λ keeps the order (2N)^{−1/2} at a rate of 1: λ_t/λ_0 does not depend on N",
    "at ten times that rate single matrices outgrow their order: λ_t/λ_0 above √10 in ten steps",
    "α = 1 moves further than the symmetric choice: ‖W_t − W_0‖/‖W_0‖ by 5 % or more",
    "and that further than λ = 1",
)


def check(context: Context) -> tuple[Finding, ...]:
    """λ(W_t)/λ(W_0) and ‖W_t − W_0‖/‖W_0‖ over SGD steps of the branch matrices on text."""
    import numpy as np

    from paper_checks.shared.stacks import Net, settings
    from paper_checks.shared.streams import mean, power
    from paper_checks.shared.training import train

    nets = {
        "alpha = 1": Net("1", "(2*N)**(-1/2)"),
        "symmetric": Net("(2*N)**(1/4)", "(2*N)**(-1/4)"),
        "lambda = 1": Net("(2*N)**(1/2)", "1"),
    }
    s = settings(context, width=32, tokens=16, batch=4, seeds=8)
    depths = context.pick((8, 24, 72), (8, 32, 96))
    moments, rates = context.pick(((3, 10), (1.0, 10.0)), ((3, 10, 30), (1.0, 3.0, 10.0)))
    rows: list[dict[str, Any]] = []
    growth: dict[str, list[Tensor]] = {}
    moved: dict[str, np.ndarray] = {}
    for rate in rates:
        for name, net in nets.items():
            if name != "alpha = 1" and rate != 1.0:
                continue
            for depth in depths:
                seen = Magnitudes(moments)
                losses = train(net, depth, s, rate, moments[-1] + 1, seen)
                rows.append(
                    {
                        "choice": name,
                        "layers": depth,
                        "rate": rate,
                        "loss at steps 0 and on": losses[[0, *moments]].mean(1).tolist(),
                        "mean growth of lambda": {
                            t: float(g.mean()) for t, g in seen.growth.items()
                        },
                        "largest": {t: float(g.max()) for t, g in seen.growth.items()},
                    }
                )
                for t in moments:
                    if name == "alpha = 1":
                        label = f"rate {rate:g}, step {t}"
                        growth.setdefault(f"mean over matrices, {label}", []).append(
                            seen.growth[t].mean(0)
                        )
                        growth.setdefault(f"largest matrix, {label}", []).append(
                            seen.growth[t].amax(0)
                        )
                    if rate == 1.0:
                        key = f"{name}, step {t}, {depth} layers"
                        moved[key] = np.log(seen.distance[t].mean(0).numpy())
    laws = {k: power(depths, np.stack(v, axis=1)) for k, v in growth.items()}
    whole = {k: v for k, v in laws.items() if k.startswith("mean")}
    single = {
        f"{n} layers": mean(g.log().numpy())
        for n, g in zip(depths, growth["largest matrix, rate 10, step 10"], strict=True)
    }

    def less(smaller: str, larger: str) -> dict[str, Any]:
        return {
            f"step {t}, {n} layers": mean(
                moved[f"{smaller}, step {t}, {n} layers"] - moved[f"{larger}, step {t}, {n} layers"]
            )
            for t in moments
            for n in depths
        }

    what = "exponent in N of λ_t/λ_0"
    part = "log of the distance moved against the other's"
    return (
        exponent(ESCAPE, whole, 0.5, (("kept", 0.0),), what=what, runs=rows, seed=context.seed),
        exponent(
            KEPT,
            {k: v for k, v in whole.items() if "rate 1," in k},
            0.0,
            (("escape", 0.5),),
            what=what,
            single_matrices={k: numbers(v) for k, v in laws.items() if k not in whole},
        ),
        within(SINGLE, single, 0.5 * math.log(10), math.inf, "log of the largest"),
        at_most(FIRST, less("symmetric", "alpha = 1"), -MARGIN, part, 0.0),
        at_most(SECOND, less("lambda = 1", "symmetric"), -MARGIN, part, 0.0),
    )


@dataclass
class Magnitudes:
    """Su's magnitude λ(W) = ‖WWᵀ‖/‖W‖ of every scaled matrix against that at the start."""

    at: tuple[int, ...]
    first: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    growth: dict[int, Tensor] = field(default_factory=dict)  # (matrices, seeds)
    distance: dict[int, Tensor] = field(default_factory=dict)

    def __call__(self, step: int, trial: Trial) -> None:
        import torch

        from paper_checks.shared.rules import SCALED

        w = [p.detach() for p, d in trial.parameters() if d.name in SCALED]
        if step == 0:
            self.first = [(x.clone(), _magnitude(x)) for x in w]
        if step in self.at:
            pairs = list(zip(w, self.first, strict=True))
            self.growth[step] = torch.stack([_magnitude(x) / size for x, (_, size) in pairs])
            self.distance[step] = torch.stack(
                [_norm(x - start) / _norm(start) for x, (start, _) in pairs]
            )


def _norm(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1)


def _magnitude(x: Tensor) -> Tensor:
    return _norm(x @ x.mT if x.shape[-2] <= x.shape[-1] else x.mT @ x) / _norm(x)


CLAIM = Claim(
    name="su-escape",
    source=f"{SU}, §First conclusions, alternative one",
    statement="With α = 1, λ may start at (2N)^{−1/2} but leaves that order within a few steps.",
    conditions="SGD on the branch matrices, text, 8 to 96 layers, width 32, rates 1 to 10, "
    "10 to 30 steps; λ the argmin's magnitude",
    recorded=(
        Ruling(ESCAPE, Verdict.REFUTED),
        Ruling(KEPT, Verdict.SUPPORTED, corrected=True),
        Ruling(SINGLE, Verdict.SUPPORTED),
        Ruling(FIRST, Verdict.SUPPORTED),
        Ruling(SECOND, Verdict.SUPPORTED),
    ),
    finding=(
        "The magnitude does not leave its order by itself. At a rate of 1, with which ten SGD "
        "steps bring the loss from 5.7 to 5.1, the mean λ(W) grows by 8 % at 8 layers as at 96: "
        "relative updates are the same at every depth, so how far λ moves depends on η, not on "
        "N. Single matrices go further, and at ten times that rate some outgrow their order, by "
        "a factor of 50 to 100. The order of the three choices is as Su says: α = 1 moves two "
        "to four times as far as the symmetric choice, and that as far again as λ = 1."
    ),
    counterexample=(
        "96 layers, SGD of rate 1, ten steps: the mean λ(W_t)/λ(W_0) is 1.08, where order one "
        "would be a factor 14."
    ),
    corrected=(
        "At α = 1 the relative update is η·O(1) at every depth: the mean λ keeps its order "
        "(2N)^{−1/2}; single matrices leave it where η is too large for any depth."
    ),
    check=check,
    seconds=10,
    full_seconds=47,
)
