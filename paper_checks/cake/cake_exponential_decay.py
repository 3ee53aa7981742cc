import math
from dataclasses import dataclass
from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Trial, judge, np, once
from paper_checks.shared.record import CAKE, MARGIN, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, PLAIN, Net, backward, norms

CLAIM = Claim(
    name="cake-exponential-decay",
    source=f"{CAKE}, §4.3, supplement, after the product of Jacobians",
    statement="""As the layer number i decreases, K = 2N − i grows and ∂F/∂x_i decays exponentially,
        as ((α² − v²w²)/(α² + v²w²))^{K/2} (agreeing with Xiong et al., arXiv 2002.04745).""",
    conditions="""built encoders of 8 to 128 layers, text (windows whose targets are not all one
        byte) and Gaussian tokens of correlation 0 and 0.5, 4 to 64 of them, ‖∂L/∂x_l‖ over all
        tokens""",
    finding="""At DeepNorm's constants the formula's value agrees: its rate r² is so small that it
        leaves 0.94 of the gradient at 8 layers and 0.98 at 64, and 0.96 to 0.97 is measured at
        every depth. That the gradient falls with K at the rate r² does not: at r of 0.3 to 0.7, v =
        w < 1 < α, it falls in 64 layers by less than a tenth of what the formula says, and rises
        again at the bottom. In plain Post-LN what falls is the part of the gradient that differs
        between tokens, by 0.32 to 0.33 of its logarithm a layer in the upper half (½ ln 2 = 0.35
        for tokens that are alike, whatever their number), and it rises again below. Feed-forward
        sublayers alone show no fall: the decay belongs to attention averaging tokens, not to the
        scalar product of the source.""",
    counterexample="""α = 1.2, v = w = 0.9, 64 layers: the formula leaves e^{−62} of the gradient,
        and 0.2 is left on text. Two scalar sublayers with opposite signs at r = 1/2 multiply
        to 0.6, with equal positive signs to 1.8.""",
    corrected="""Under DeepNorm ‖∂L/∂x_l‖ is the same at all depths up to a few percent. In plain
        Post-LN attention averages the part that differs between tokens away, by ½ ln 2 of its
        logarithm a layer in the upper half; feed-forward sublayers alone do not make it fall.""",
    seconds=4.0,
)
LAYERS = 64
# tokens alike are averaged evenly: the branch takes half of z's square and passes nothing
ALIKE = math.log(2) / 2


@dataclass(frozen=True)
class Signals:
    """‖∂L/∂x_l‖ at every sublayer's output, bottom first: (sublayers, seeds) each."""

    whole: Array
    differing: Array  # of the part that differs between the tokens


@CLAIM.stated("at DeepNorm's constants what is left is the formula's, to 5 %", SUPPORTED)
def at_the_constants(lab: Lab) -> Finding:
    at = np.array(lab.shallow())
    predicted = np.exp(-falls_by((8 * at) ** -0.5 * (2 * at) ** -0.25, at))
    ratios = {
        f"{data}, N = {n}": lab.mean(column)
        for data, left in under_deepnorm(lab).items()
        for n, column in zip(at, (left / predicted).T, strict=True)
    }
    left = {data: values.mean(0).tolist() for data, values in under_deepnorm(lab).items()}
    what = "bottom over top, over the formula's"
    return lab.ratio(ratios, what, bottom_over_top=left)


@CLAIM.stated("at a fixed r with v = w < 1 < α it falls by what the formula says", REFUTED)
def at_a_fixed_weight(lab: Lab) -> Finding:
    ratios = {}
    for alpha, beta in ((1.2, 0.9), (2.0, 0.9), (1.5, 0.7)):
        expected = falls_by(beta**2 / alpha, LAYERS)
        for data in lab.texts("gaussian:0"):
            s = lab.small(data=data, seeds=lab.pick(16, 32))
            found = signals(Net(str(alpha), str(beta)).trial(LAYERS, s))
            fall = np.log(found.whole[-1] / found.whole[0])
            ratios[f"{data}, α = {alpha}, v = w = {beta}"] = lab.mean(fall / expected)
    what = f"fall of the logarithm through {LAYERS} layers over the formula's"
    return lab.ratio(ratios, what)


@judge
def halves(lab: Lab, part: str, what: str) -> Finding:
    """An exponential falls as much in the lower half as in the upper one."""
    ratios = {}
    for data in lab.texts("gaussian:0"):
        logs = np.log(getattr(in_plain_post_ln(lab)[f"{data}, 16 tokens"], part))
        half = len(logs) // 2
        upper = (logs[-1] - logs[half]) / (len(logs) - 1 - half)
        ratios[data] = lab.mean((logs[half] - logs[0]) / half / upper.mean())
    return lab.ratio(ratios, f"fall in the lower half over the upper half's, {what}")


CLAIM.ours("plain Post-LN: ‖∂L/∂x_l‖ falls exponentially all the way down", REFUTED)(
    halves("whole", "whole gradient")
)
CLAIM.ours(
    "plain Post-LN: the part that differs between tokens does so from top to bottom", REFUTED
)(halves("differing", "differing part"))


@CLAIM.correction("DeepNorm: log of top over bottom does not grow with depth", SUPPORTED)
def level(lab: Lab) -> Finding:
    slopes = {data: lab.power(lab.shallow(), left) for data, left in under_deepnorm(lab).items()}
    return lab.exponent(slopes, 0.0, what="exponent in N of bottom over top")


@CLAIM.correction(
    "plain Post-LN, upper half: that part falls by ½ ln 2 a layer, whatever the tokens' number",
    SUPPORTED,
)
def upper_half(lab: Lab) -> Finding:
    rates = {}
    for label, found in in_plain_post_ln(lab).items():
        logs = np.log(found.differing)
        # layer by layer from the input of the last feed-forward sublayer, half the way down
        count = len(logs) // 4
        rates[label] = lab.mean((logs[-2] - logs[-2 - 2 * count]) / count)
    return lab.within(rates, ALIKE - MARGIN, ALIKE + MARGIN, "fall of the logarithm a layer")


@CLAIM.correction(
    "plain Post-LN of feed-forward sublayers alone: no fall, to 5 % of attention's", SUPPORTED
)
def feed_forward_alone(lab: Lab) -> Finding:
    rates = {}
    for data in lab.texts("gaussian:0"):
        s = lab.small(data=data, seeds=lab.pick(16, 32))
        logs = np.log(signals(Net(layer="ffn").trial(LAYERS, s)).whole)
        rates[data] = lab.mean((logs[-1] - logs[0]) / (len(logs) - 1))
    what = "fall of the logarithm a sublayer, feed-forward alone"
    return lab.within(rates, -MARGIN * ALIKE, MARGIN * ALIKE, what)


def falls_by(r: Any, layers: Any) -> Any:
    """The formula's fall of the logarithm from a stack's last sublayer to its first."""
    return (2 * layers - 1) / 2 * np.log((1 + r**2) / (1 - r**2))


@once
def under_deepnorm(lab: Lab) -> dict[str, Array]:
    """‖∂L/∂x_1‖ over ‖∂L/∂x_{2N}‖: (seeds, depths)."""
    left = {}
    for data in lab.texts("gaussian:0"):
        s = lab.small(data=data, seeds=lab.pick(16, 32))
        found = [signals(DEEPNORM.trial(n, s)).whole for n in lab.shallow()]
        left[data] = np.array([whole[0] / whole[-1] for whole in found]).T
    return left


@once
def in_plain_post_ln(lab: Lab) -> dict[str, Signals]:
    """By data and number of tokens."""
    found = {}
    for data in lab.texts("gaussian:0"):
        for tokens in lab.pick((16,), (4, 16, 64)):
            one = signals(PLAIN.trial(LAYERS, lab.small(data=data, seeds=64, tokens=tokens)))
            # where all targets of a window are the same byte, no part differs at the top
            some = one.differing[-1] > 1e-2 * one.whole[-1]
            label = f"{data}, {tokens} tokens"
            found[label] = Signals(one.whole[:, some], one.differing[:, some])
    return found


def signals(trial: Trial) -> Signals:
    """Of one backward pass."""
    given = [g.double() for g in backward(trial).signals]
    apart = [g - g.mean(-2, keepdim=True) for g in given]
    return Signals(*(Lab.columns(norms(g) for g in part).T for part in (given, apart)))
