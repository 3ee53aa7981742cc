"""Gradients decay exponentially towards the bottom."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

DEEP, PLAIN_BOTTOM, DIFFERENCE, CORRECTED, LAW, ALONE = (
    "DeepNorm at its constants",
    "plain Post-LN: ‖∂L/∂x_l‖ falls exponentially all the way down",
    "plain Post-LN: the part that differs between tokens does so from top to bottom",
    "DeepNorm: log of top over bottom does not grow with depth",
    "plain Post-LN, upper half: that part falls by ½ ln 2 a layer, whatever the tokens' number",
    "plain Post-LN of feed-forward sublayers alone: no fall, to 5 % of attention's",
)


def check(context: Context) -> tuple[Finding, ...]:
    """‖∂L/∂x_l‖ of every sublayer, and its share common to all tokens, in built stacks."""
    from deepnet_theory.spec.selection import Selection
    from paper_checks.shared.streams import DEEPNORM, PLAIN, mean, np, power, settings, signals
    from paper_checks.shared.verdicts import MARGIN, exponent, within

    sgd, alone = Selection(optimizer="sgd"), Selection(optimizer="sgd", layer="ffn")
    depths = context.pick((8, 16, 32, 64), (8, 16, 32, 64, 128))
    seeds, layers = context.pick(16, 32), 64
    deep, whole, differing, falls, rest = {}, {}, {}, {}, {}
    for data in context.pick(("text", "gaussian:0"), ("text", "gaussian:0", "gaussian:0.5")):
        given = settings(context, data=data, seeds=seeds)
        stacks = [signals(sgd, DEEPNORM, n, given)[0] for n in depths]
        deep[data] = np.array([np.log(s[0] / s[-1]) for s in stacks]).T  # (seeds, depths)
        rest[data] = signals(alone, PLAIN, layers, given)[0]
        for tokens in context.pick((16,), (4, 16, 64)):
            given = settings(context, data=data, seeds=64, tokens=tokens)
            found = signals(sgd, PLAIN, layers, given)
            # where all targets of a window are the same byte, no part differs at the top
            some = found[1][-1] > 1e-2 * found[0][-1]
            logs = [np.log(part[:, some]) for part in found]
            falls[f"{data}, {tokens} tokens"] = logs[1]
            if tokens == 16:
                whole[data], differing[data] = logs

    def halves(about, found, what):  # type: ignore[no-untyped-def]
        """An exponential falls as much in the lower half as in the upper one."""
        ratios = {}
        for data, logs in found.items():
            half = len(logs) // 2
            upper = (logs[-1] - logs[half]) / (len(logs) - 1 - half)
            ratios[data] = mean((logs[half] - logs[0]) / half / upper.mean())
        what = f"fall in the lower half over the upper half's, {what}"
        return within(about, ratios, 0.95, 1.05, what)

    times = (2 * depths[-1] - 1) / (2 * depths[0] - 1)  # sublayers from the bottom to the top
    ratios = {k: np.exp(v.mean(0)).tolist() for k, v in deep.items()}
    law = {}
    for k, logs in falls.items():
        # layer by layer from the input of the last feed-forward sublayer, half the way down
        count = len(logs) // 4
        law[k] = mean((logs[-2] - logs[-2 - 2 * count]) / count)
    # tokens alike are averaged evenly: the branch takes half of z's square and passes nothing
    value = np.log(2) / 2
    return (
        within(
            DEEP,
            {k: mean(logs[:, -1] / (times * logs[:, 0].mean())) for k, logs in deep.items()},
            0.95,
            1.05,
            f"log(bottom/top) at N = {depths[-1]} over {times:.3g} times that at N = {depths[0]}, "
            "1 for an exponential",
            bottom_over_top=ratios,
            depths=list(depths),
        ),
        halves(PLAIN_BOTTOM, whole, "whole gradient"),
        halves(DIFFERENCE, differing, "differing part"),
        exponent(
            CORRECTED,
            {data: power(depths, np.exp(logs)) for data, logs in deep.items()},
            0.0,
            what="exponent in N of bottom over top",
            bottom_over_top=ratios,
        ),
        within(LAW, law, value - MARGIN, value + MARGIN, "fall of the logarithm a layer"),
        within(
            ALONE,
            {k: mean((np.log(p[-1]) - np.log(p[0])) / (len(p) - 1)) for k, p in rest.items()},
            -MARGIN * value,  # of what attention takes a layer
            MARGIN * value,
            "fall of the logarithm a sublayer, feed-forward alone",
        ),
    )


CLAIM = Claim(
    name="cake-exponential-decay",
    source="Transformer layer cake (AI推公式), §4.3, supplement, after the product of Jacobians",
    statement=(
        "As the layer number i decreases, ∂F/∂x_i decays exponentially (agreeing with Xiong "
        "et al., arXiv 2002.04745)."
    ),
    conditions=(
        "built encoders of 8 to 128 layers, text (windows whose targets are not all one byte) "
        "and Gaussian tokens of correlation 0 and 0.5, 4 to 64 of them, ‖∂L/∂x_l‖ over all tokens"
    ),
    recorded=(
        Ruling(DEEP, Verdict.REFUTED),
        Ruling(PLAIN_BOTTOM, Verdict.REFUTED),
        Ruling(DIFFERENCE, Verdict.REFUTED),
        Ruling(CORRECTED, Verdict.SUPPORTED, corrected=True),
        Ruling(LAW, Verdict.SUPPORTED, corrected=True),
        Ruling(ALONE, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "Not under DeepNorm: the gradient at the bottom of a stack is 0.96 to 0.97 of that at the "
        "top, at 8 layers as at 128, for text and Gaussian tokens. Not all the way down in plain "
        "Post-LN either: what falls there is the part of the gradient that differs between "
        "tokens, by 0.32 to 0.33 of its logarithm a layer in the upper half (½ ln 2 = 0.35 for "
        "tokens that are alike, whatever their number), and it rises again below; the whole "
        "gradient falls in the lower half at most 0.3 times as much as in the upper one. "
        "Feed-forward sublayers alone show no fall: the decay belongs to attention averaging "
        "tokens, not to the scalar product of the source."
    ),
    counterexample=(
        "Two scalar sublayers with opposite signs at r = 1/2 multiply to 0.6, with equal "
        "positive signs to 1.8; at DeepNorm's N = 64 (r = 0.013, 128 sublayers) the "
        "geometric mean is 0.98."
    ),
    corrected=(
        "Under DeepNorm ‖∂L/∂x_l‖ is the same at all depths up to a few percent. In plain "
        "Post-LN attention averages the part that differs between tokens away, by ½ ln 2 of its "
        "logarithm a layer in the upper half; feed-forward sublayers alone do not make it fall."
    ),
    check=check,
    seconds=4.0,
)
