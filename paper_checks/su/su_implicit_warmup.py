import math
from dataclasses import replace

from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, Trial, np, numeric, once
from paper_checks.shared.record import MARGIN, REFUTED, SU, SUPPORTED, UNDECIDED
from paper_checks.shared.stacks import Net
from paper_checks.shared.training import train

CLAIM = Claim(
    name="su-implicit-warmup",
    source=f"{SU}, §First conclusions, alternative two and the paragraph below",
    statement="""α = (2N)^{1/2}, λ = 1 shrinks the relative update, so it may happen (有可能) that
        it learns very slowly; the symmetric choice starts a little slower than α = 1, not too
        slow, and so acts as an implicit warm-up.""",
    conditions="""SGD on the branch matrices, text, 4, 16 and 64 layers, width 32, 10 steps at rate
        1 (full run: also 33 at 0.3 and 30 at 0.1), the drop measured on windows that no step
        sees""",
    finding="""The symmetric choice does act as a warm-up. The first step lowers the loss equally
        under all choices, since they are balanced. When the rates of the steps add up to 3, the
        symmetric choice is 5 to 11 % behind α = 1, at rates of 0.1, 0.3 and 1. When they add up to
        10, both are even. So the lag comes after the first steps, and disappears. With λ = 1 the
        relative change of the weights shrinks with depth. The drop of the loss, relative to that
        with α = 1, does not (exponents in depth of −0.01 to +0.07). Ten steps do not exclude a
        slowness in a longer training.""",
    would_decide="""Trainings to the end, 4 to 64 layers and over all rates: one where λ = 1
        needs several times the steps of α = 1 for the same loss is an example; none at any rate
        speaks against it.""",
    counterexample="""λ = 1, 4 to 64 layers, ten steps at rate 1: the drop of the loss, as a part of
        that with α = 1, scales as N^e with e from −0.01 to +0.07, where slowness that grows with
        depth is e < −0.05.""",
    corrected="""Choices on the balanced curve take the same first step. The symmetric one then
        falls behind α = 1 by about a tenth, and is even with it once the rates of the steps add up
        to 10, at every depth: a transient, and no slowness that grows with depth.""",
    seconds=(14, 82),
)

DEPTHS = (4, 16, 64)
# rate by rate the steps that are looked at, 10 by the sum of the rates at the most
LOOKS: tuple[dict[float, tuple[int, ...]], ...] = (
    {1.0: (1, 3, 10)},
    {1.0: (1, 3, 10), 0.3: (1, 10, 33), 0.1: (1, 30)},
)
ONE = Net("1", "(2*N)**(-1/2)")
OTHERS = {"symmetric": Net("(2*N)**(1/4)", "(2*N)**(-1/4)"), "lambda = 1": Net("(2*N)**(1/2)", "1")}
PART = "log of the drop's ratio to that with α = 1"


@CLAIM.stated("λ = 1 may learn very slowly, where the training is long", UNDECIDED)
def long(lab: Lab) -> Finding:
    return lab.undecided("the rates of the steps add up to 10 at the most")


@CLAIM.ours(
    "in ten steps the drop of the loss with λ = 1, as a part of that with α = 1, falls with depth",
    REFUTED,
)
def slow(lab: Lab) -> Finding:
    laws = {}
    for rate, steps in lab.pick(*LOOKS).items():
        for step in steps[1:]:
            ratios = [np.exp(lag(lab)["lambda = 1", rate, step, n]) for n in DEPTHS]
            laws[f"rate {rate:g}, step {step}"] = lab.power(DEPTHS, np.stack(ratios, axis=1))
    return lab.at_most(laws, -MARGIN, "exponent in depth of the drop's ratio", 0.0)


@CLAIM.ours(
    "the first step, alike according to the balance, lowers the loss with the "
    "symmetric choice no less than with α = 1, within 5 %",
    SUPPORTED,
)
def first(lab: Lab) -> Finding:
    return lab.at_least(symmetric(lab, 0.0, 1.0), -MARGIN, PART)


@CLAIM.stated(
    "once the rates of the steps add up to 3, the symmetric choice is behind α = 1", SUPPORTED
)
def behind(lab: Lab) -> Finding:
    return lab.at_most(symmetric(lab, 2.0, 5.0), 0.0, PART, 0.0)


@CLAIM.stated("and not too slow: its drop is more than half of that with α = 1", SUPPORTED)
def not_too_slow(lab: Lab) -> Finding:
    return lab.at_least(symmetric(lab, 0.0, math.inf), -math.log(2), PART)


@CLAIM.correction("once they add up to 10, their drops are within 5 %", SUPPORTED)
def even(lab: Lab) -> Finding:
    return lab.within(symmetric(lab, 5.0, math.inf), -MARGIN, MARGIN, PART)


def symmetric(lab: Lab, above: float, up_to: float) -> dict[str, Interval]:
    """The symmetric choice beside α = 1, where the rates of the steps add up to so much.

    The first step is one step at any rate.
    """
    return {
        f"rate {rate:g}, step {step}, {n} layers": lab.mean(lag(lab)["symmetric", rate, step, n])
        for rate, steps in lab.pick(*LOOKS).items()
        for step in steps
        for n in DEPTHS
        if above < (1.0 if step == 1 else rate * step) <= up_to
    }


@once
def lag(lab: Lab) -> dict[tuple[str, float, int, int], Array]:
    """The logarithm of the drop's ratio to that with α = 1: (seeds,) each."""
    found: dict[tuple[str, float, int, int], Array] = {}
    for rate, steps in lab.pick(*LOOKS).items():
        for n in DEPTHS:
            reference = logs_of_drops(lab, ONE, n, rate, steps)
            for name, net in OTHERS.items():
                ratios = logs_of_drops(lab, net, n, rate, steps) - reference
                found |= {(name, rate, t, n): r for t, r in zip(steps, ratios, strict=True)}
    return found


def logs_of_drops(lab: Lab, net: Net, layers: int, rate: float, steps: tuple[int, ...]) -> Array:
    """On windows that no step sees, the same for every choice: (steps, seeds)."""
    s = lab.settings(width=32, tokens=16, batch=4, seeds=16)
    generator = numeric.generator_for(s.seed, "held out")
    drawn = numeric.text_windows(s.seeds * s.batch, s.tokens + 1, generator)
    windows, losses = drawn.reshape(s.seeds, s.batch, -1), {}

    def watch(step: int, trial: Trial) -> None:
        if step not in (0, *steps):
            return
        own = trial.batch
        trial.see(replace(own, inputs=(windows[..., :-1],), targets=windows[..., 1:]))
        losses[step] = trial.loss(trial.output()).detach().double().numpy()
        trial.see(own)

    train(net, layers, s, rate, max(steps) + 1, watch)
    return np.log([losses[0] - losses[t] for t in steps])
