from __future__ import annotations

import math
from dataclasses import dataclass, field

from paper_checks.shared.bench import Claim, Finding, Lab, judge, numeric, once, torch
from paper_checks.shared.record import MARGIN, REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import SCALED
from paper_checks.shared.stacks import Net, norms
from paper_checks.shared.training import train

CLAIM = Claim(
    name="su-escape",
    source=f"{SU}, §First conclusions, alternative one",
    statement="""With α = 1 the relative update is what it was, so it may happen (有可能) that λ
        starts at (2N)^{−1/2} and has left that order after a few steps; the symmetric choice is
        a little slower at first.""",
    conditions="""SGD on the branch matrices, text, 8 to 96 layers, width 32, rates 1 to 10, 10 to
        30 steps; λ the argmin's magnitude""",
    finding="""It may, and it need not: the rate decides. At a rate of 1, where ten SGD steps
        bring the loss from 5.7 to 5.1, the mean λ(W) grows by 8 % at 8 layers as at 96: relative
        updates are the same at every depth, so the change of λ depends on η, not on N. At ten times
        that rate single matrices do leave their order in ten steps, by a factor of 50 to 100, at
        every depth, and the loss still falls to 5.2. The order of the three choices is as Su says:
        α = 1 moves two to four times as much as the symmetric choice, and that as much again as λ =
        1.""",
    counterexample="""96 layers, SGD of rate 1, ten steps: the mean λ(W_t)/λ(W_0) is 1.08, where
        order one would be a factor 14.""",
    corrected="""At α = 1 the relative update is η·O(1) at every depth: the mean λ keeps its order
        (2N)^{−1/2}; single matrices leave it where η is too large for any depth.""",
    seconds=(10, 47),
)

NETS = {
    "alpha = 1": Net("1", "(2*N)**(-1/2)"),
    "symmetric": Net("(2*N)**(1/4)", "(2*N)**(-1/4)"),
    "lambda = 1": Net("(2*N)**(1/2)", "1"),
}
DEPTHS = ((8, 24, 72), (8, 32, 96))
MOMENTS = ((3, 10), (3, 10, 30))  # the steps before which it is looked
WHAT = "exponent in N of λ_t/λ_0"


@CLAIM.stated(
    "it may: at a rate of 10 single matrices have left their order in ten steps, λ_t/λ_0 above √10",
    SUPPORTED,
)
def single_matrices(lab: Lab) -> Finding:
    largest = {
        f"{n} layers": lab.mean(runs(lab)["alpha = 1", 10.0, n].growth[10].amax(0).log().numpy())
        for n in lab.pick(*DEPTHS)
    }
    return lab.at_least(largest, 0.5 * math.log(10), "log of the largest")


@CLAIM.ours("it does at any rate, towards order 1: the mean growth λ_t/λ_0 is as N^{1/2}", REFUTED)
def escape(lab: Lab) -> Finding:
    losses = {key: of.losses for key, of in runs(lab).items()}
    return lab.exponent(growth(lab), 0.5, (("kept", 0.0),), what=WHAT, losses=losses)


@CLAIM.correction(
    "the mean λ keeps the order (2N)^{−1/2} at a rate of 1: λ_t/λ_0 does not depend on N", SUPPORTED
)
def kept(lab: Lab) -> Finding:
    slow = {key: one for key, one in growth(lab).items() if "rate 1," in key}
    single = {key: lab.numbers(one) for key, one in growth(lab, largest=True).items()}
    return lab.exponent(slow, 0.0, (("escape", 0.5),), what=WHAT, single_matrices=single)


@judge
def less(lab: Lab, smaller: str, larger: str) -> Finding:
    """Whether one choice moved less far than the other, in logarithms, at a rate of 1."""
    found = {}
    for t in lab.pick(*MOMENTS):
        for n in lab.pick(*DEPTHS):
            logs = [runs(lab)[name, 1.0, n].distance[t].mean(0).log() for name in (smaller, larger)]
            found[f"step {t}, {n} layers"] = lab.mean(logs[0] - logs[1])
    return lab.at_most(found, -MARGIN, "log of the distance moved against the other's", 0.0)


CLAIM.stated(
    "α = 1 moves further than the symmetric choice: ‖W_t − W_0‖/‖W_0‖ by 5 % or more", SUPPORTED
)(less("symmetric", "alpha = 1"))
CLAIM.stated("and that further than λ = 1", SUPPORTED)(less("lambda = 1", "symmetric"))


@dataclass
class Magnitudes:
    """Su's magnitude λ(W) = ‖WWᵀ‖/‖W‖ of every scaled matrix against that at the start."""

    at: tuple[int, ...]
    first: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    growth: dict[int, torch.Tensor] = field(default_factory=dict)  # (matrices, seeds)
    distance: dict[int, torch.Tensor] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)

    def __call__(self, step: int, trial: numeric.Trial) -> None:
        """See the stack before a step."""
        w = [p.detach() for p, d in trial.parameters() if d.name in SCALED]
        if step == 0:
            self.first = [(x.clone(), magnitude(x)) for x in w]
        if step in self.at:
            pairs = list(zip(w, self.first, strict=True))
            self.growth[step] = torch.stack([magnitude(x) / size for x, (_, size) in pairs])
            moved = [norms(x - start) / norms(start) for x, (start, _) in pairs]
            self.distance[step] = torch.stack(moved)


def magnitude(x: torch.Tensor) -> torch.Tensor:
    """λ(W) of each seed."""
    return norms(x @ x.mT if x.shape[-2] <= x.shape[-1] else x.mT @ x) / norms(x)


@once
def runs(lab: Lab) -> dict[tuple[str, float, int], Magnitudes]:
    """What was seen under every choice, rate and depth: at α = 1 alone the rate varies."""
    s = lab.settings(width=32, tokens=16, batch=4, seeds=8)
    found = {}
    for rate in lab.pick((1.0, 10.0), (1.0, 3.0, 10.0)):
        for name, net in NETS.items():
            for depth in lab.pick(*DEPTHS) if rate == 1.0 or name == "alpha = 1" else ():
                seen = Magnitudes(lab.pick(*MOMENTS))
                losses = train(net, depth, s, rate, lab.pick(*MOMENTS)[-1] + 1, seen)
                seen.losses = losses[[0, *lab.pick(*MOMENTS)]].mean(1).tolist()
                seen.first = []  # its memory
                found[name, rate, depth] = seen
    return found


def growth(lab: Lab, largest: bool = False) -> dict[str, numeric.Interval]:
    """The exponent in N of the mean λ_t/λ_0, or of the largest of all matrices, at α = 1."""
    found = {}
    for rate in {rate for _, rate, _ in runs(lab)}:
        for t in lab.pick(*MOMENTS):
            every = [runs(lab)["alpha = 1", rate, n].growth[t] for n in lab.pick(*DEPTHS)]
            values = lab.columns(g.amax(0) if largest else g.mean(0) for g in every)
            found[f"rate {rate:g}, step {t}"] = lab.power(lab.pick(*DEPTHS), values)
    return found
