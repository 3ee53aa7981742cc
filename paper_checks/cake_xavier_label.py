"""2w²/d and v²/m are "Xavier normal"; 1/n is better here than 2/(n_in + n_out)."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

LABEL, SQUARE, BETTER, BACKWARD, HE = (
    "variances 2w²/d and v²/m are what xavier_normal_(gain=β) draws",
    "they coincide with it up to constants where m = d",
    "with 1/n in place of 2/(n_in + n_out) the update's exponent in depth is closer to 0",
    "both conventions make the branch equally large forward and backward",
    "they are He's (fan-in, gain √2) and LeCun's (fan-in)",
)


def check(context: Context) -> tuple[Finding, ...]:
    """torch's own initialisers; forward and backward sizes; both conventions on real stacks."""
    import torch
    from torch.nn import init

    from deepnet_theory.spec.selection import Selection
    from paper_checks._cake_measure import (
        DEEPNORM,
        feed_forward,
        generator,
        mean,
        normalised,
        settings,
    )
    from paper_checks._verdicts import agrees, proved, seen

    g = generator(context, 9)
    d, m, beta = 64, 256, 0.5

    def variance(draw):  # type: ignore[no-untyped-def]
        w = torch.empty(m, d, dtype=torch.float64)
        draw(w)
        return mean(w.square().flatten().numpy())

    small = torch.empty(d, d, dtype=torch.float64)
    square = mean(init.xavier_normal_(small, generator=g).square().flatten().numpy())
    xavier = variance(lambda w: init.xavier_normal_(w, gain=beta, generator=g))
    he = variance(lambda w: init.kaiming_normal_(w, nonlinearity="relu", generator=g))
    lecun = variance(lambda w: init.kaiming_normal_(w, nonlinearity="linear", generator=g))
    # forward and backward weight of relu(xW)V in both conventions, m = 4d
    W, V = feed_forward(g, context.pick(200, 1000), d, m, 1.0, 1.0)
    shrink = ((2 / (d + m)) / (2 / d)) ** 0.5, ((2 / (d + m)) / (1 / m)) ** 0.5
    x, signal = (
        normalised(g, len(W), 1, d),
        torch.randn(len(W), 1, d, generator=g, dtype=torch.float64),
    )
    sizes = {}
    for name, (a, b) in (("fan-in", (1.0, 1.0)), ("Xavier", shrink)):
        pre = x @ (a * W)
        forward = (torch.relu(pre) @ (b * V)).square().sum((1, 2)) / d
        backward = ((signal @ (b * V).mT * (pre > 0)) @ (a * W).mT).square().sum(
            (1, 2)
        ) / signal.square().sum((1, 2))
        sizes[name] = mean(forward), mean(backward)
    depths = context.pick((8, 16, 32, 64), (8, 16, 32, 64, 128))
    slopes = {}
    for name in ("fan-in", "Xavier"):
        slopes[name] = _slope(
            context,
            depths,
            name == "fan-in",
            Selection(optimizer="sgd"),
            DEEPNORM,
            settings(context, seeds=16),
        )
    gain = abs(slopes["Xavier"].estimate) - abs(slopes["fan-in"].estimate)
    level = {k: [v.estimate for v in s] for k, s in sizes.items()}
    return (
        proved(
            LABEL,
            agrees(xavier, 2 * beta**2 / d) or agrees(xavier, beta**2 / m),
            (
                f"torch's xavier_normal_ draws variance {xavier.estimate:.6f} = 2β²/(d + m) "
                f"= {2 * beta**2 / (d + m):.6f}; 2β²/d is {2 * beta**2 / d:.6f}"
            ),
        ),
        proved(
            SQUARE,
            agrees(square, 1 / d),
            (
                f"at m = d torch draws variance {square.estimate:.5f}, 1/d = {1 / d:.5f}: "
                "V's exactly, W's but for ReLU's factor 2"
            ),
        ),
        seen(
            BETTER,
            gain > 0.05,
            (
                f"exponents of ‖ΔF‖/η in N: {slopes['fan-in'].estimate:+.3f} with fan-in, "
                f"{slopes['Xavier'].estimate:+.3f} with Xavier"
            ),
            slopes={k: [v.estimate, v.low, v.high] for k, v in slopes.items()},
        ),
        seen(
            BACKWARD,
            not (abs(sizes["fan-in"][1].estimate - 1) > 0.1),
            (
                "squared size of the branch forward and backward: "
                f"{ ({k: [round(x, 3) for x in v] for k, v in level.items()}) }"
            ),
        ),
        proved(
            HE,
            agrees(he, 2 / d) and agrees(lecun, 1 / d),
            (
                f"torch's kaiming_normal_ draws {he.estimate:.5f} with ReLU and "
                f"{lecun.estimate:.5f} without, at fan-in {d}"
            ),
        ),
    )


def _slope(context, depths, fan_in, selection, rule, given):  # type: ignore[no-untyped-def]
    """The exponent of ‖ΔF‖ per η, the feed-forward matrices redrawn by the convention."""
    from deepnet_theory.numeric.trial import Trial
    from paper_checks._cake_measure import moved, np, only, per_token, power, torch

    columns = []
    for n in depths:
        trial = Trial(selection, rule, {"N": n}, given)
        if fan_in:
            d, m = given.width, round(given.ffn_ratio * given.width)
            with torch.no_grad():
                for p, desc in trial.parameters():
                    if desc.name == "fc1":
                        p.mul_(((2 / d) / (2 / (d + m))) ** 0.5)
                    if desc.name == "fc2":
                        p.mul_(((1 / m) / (2 / (d + m))) ** 0.5)
        parameters = [p for p, _ in trial.parameters()]
        with only(trial.model, parameters):
            trial.loss(trial.output()).sum().backward()
            changes = {id(p): -1e-3 * p.grad for p in parameters}
        columns.append((per_token(moved(trial, changes, parameters)) / 1e-3).numpy())
    return power(depths, np.array(columns).T)


CLAIM = Claim(
    name="cake-xavier-label",
    source=(
        "Transformer layer cake (AI推公式), §3, note in brackets, and §5.1 ('by the Xavier "
        "normal initialisation introduced above')"
    ),
    statement=(
        "w_ij ~ N(0, 2w²/d), v_ij ~ N(0, v²/m) are the Xavier normal initialisation with "
        "gain; for this paper 1/n_in is better than 2/(n_in + n_out)."
    ),
    conditions=(
        "torch's own initialisers; feed-forward branches with m = 4d; DeepNorm encoders of 8 "
        "to 128 layers, SGD, text"
    ),
    recorded=(
        Ruling(LABEL, Verdict.REFUTED),
        Ruling(SQUARE, Verdict.PROVED),
        Ruling(BETTER, Verdict.REFUTED),
        Ruling(BACKWARD, Verdict.SUPPORTED),
        Ruling(HE, Verdict.PROVED, corrected=True),
    ),
    finding=(
        "The variances 2w²/d and v²/m are He's and LeCun's, not Xavier's, which is 2/(d + "
        "m); DeepNet's code uses the latter. Neither is better for the purpose: the "
        "feed-forward branch is equally large forward and backward in both conventions (1 "
        "and 1 for fan-in, 0.32 and 0.32 for Xavier at m = 4d), and the update's exponent in "
        "depth is 0 in both."
    ),
    counterexample=(
        "d = 1, m = 3: Xavier's variance is 1/2 for both matrices, 2/d = 2 and 1/m = 1/3."
    ),
    corrected=(
        "N(0, 2w²/d) is He's and N(0, v²/m) LeCun's initialisation. Both conventions give a "
        "branch of equal size forward and backward, v²w² and 4dm/(d + m)²·v²w²/2; the "
        "exponents in depth are the same."
    ),
    check=check,
    seconds=4.0,
)
