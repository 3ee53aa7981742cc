"""2w²/d and v²/m are "Xavier normal"; 1/n is better here than 2/(n_in + n_out)."""

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict

LABEL, SQUARE, FORWARD, XAVIER, SAME, BACKWARD, HE = (
    "variances 2w²/d and v²/m are what xavier_normal_(gain=β) draws",
    "they coincide with it up to constants where m = d",
    "forward 1/n is better: the branch has squared weight v²w² whatever m/d",
    "of which Xavier's leaves 2dm/(d + m)²",
    "for the update it makes no difference: ‖ΔF‖/η has the same exponent in depth",
    "both conventions make the branch equally large forward and backward",
    "they are He's (fan-in, gain √2) and LeCun's (fan-in)",
)


def check(context: Context) -> tuple[Finding, ...]:
    """torch's own initialisers; forward and backward sizes; both conventions on real stacks."""
    import torch
    from torch.nn import init

    from paper_checks.shared.streams import (
        feed_forward,
        generator,
        mean,
        normalised,
        power,
        settings,
    )
    from paper_checks.shared.verdicts import (
        MARGIN,
        exponent,
        numbers,
        within,
        worst,
    )

    g = generator(context, 9)
    d, m, beta = 64, 256, 0.5

    def over(claimed, rows, draw, **given):  # type: ignore[no-untyped-def]
        """The variance that ``draw`` gives a (rows, d) matrix, over the claimed one."""
        matrices = [torch.empty(rows, d, dtype=torch.float64) for _ in range(16)]
        return mean(
            [draw(w, generator=g, **given).square().mean().item() / claimed for w in matrices]
        )

    # forward and backward weight of relu(xW)V in both conventions, m = 4d
    sizes = {}
    for ratio in (1, 4):
        hidden = ratio * d
        W, V = feed_forward(g, context.pick(400, 1000), d, hidden, 1.0, 1.0)
        shrink = (d / (d + hidden)) ** 0.5, (2 * hidden / (d + hidden)) ** 0.5
        x, signal = (
            normalised(g, len(W), 16, d),
            torch.randn(len(W), 16, d, generator=g, dtype=torch.float64),
        )
        for name, (a, b) in (("fan-in", (1.0, 1.0)), ("Xavier", shrink)):
            pre = x @ (a * W)
            forward = (torch.relu(pre) @ (b * V)).square().mean((1, 2))
            backward = ((signal @ (b * V).mT * (pre > 0)) @ (a * W).mT).square().mean((1, 2))
            backward = backward / signal.square().mean((1, 2))
            left = 1.0 if name == "fan-in" else 2 * ratio / (1 + ratio) ** 2
            label = f"{name}, m = {ratio}d, {left:.2f}"
            sizes[label] = mean(forward / left), mean(backward / forward.mean())
    depths = context.pick((8, 16, 32, 64), (8, 16, 32, 64, 128))
    exponents, ratios = {}, {}
    for data in context.pick(("text",), ("text", "gaussian:0", "gaussian:0.5")):
        given = settings(context, seeds=16, data=data)
        updates = {name: _updates(depths, name == "fan-in", given) for name in ("fan-in", "Xavier")}
        exponents[data] = {name: numbers(power(depths, v)) for name, v in updates.items()}
        ratios[data] = power(depths, updates["fan-in"] / updates["Xavier"])
    return (
        within(
            LABEL,
            {
                "2w²/d": over(2 * beta**2 / d, m, init.xavier_normal_, gain=beta),
                "v²/m": over(beta**2 / m, m, init.xavier_normal_, gain=beta),
            },
            1 - MARGIN,
            1 + MARGIN,
            f"variance of torch's xavier_normal_, d = {d}, m = {m}, over",
        ),
        within(
            SQUARE,
            over(1 / d, d, init.xavier_normal_),
            1 - MARGIN,
            1 + MARGIN,
            "variance of torch's xavier_normal_ over 1/d, m = d: V's, and W's but for ReLU's 2",
        ),
        *(
            worst(
                within(
                    about,
                    v[0],
                    1 - MARGIN,
                    1 + MARGIN,
                    f"squared size of the branch, v = w = 1, over its prediction, {label}",
                    over_predicted={k: v[0].estimate for k, v in sizes.items()},
                )
                for label, v in sizes.items()
                if label.startswith(name)
            )
            for about, name in ((FORWARD, "fan-in"), (XAVIER, "Xavier"))
        ),
        exponent(
            SAME,
            ratios,
            0.0,
            what="exponent in N of ‖ΔF‖/η with fan-in over that with Xavier",
            exponents=exponents,
        ),
        worst(
            within(
                BACKWARD,
                v[1],
                1 - MARGIN,
                1 + MARGIN,
                f"squared size backward over that forward, {label}",
            )
            for label, v in sizes.items()
        ),
        within(
            HE,
            {
                "ReLU, 2/d": over(2 / d, m, init.kaiming_normal_, nonlinearity="relu"),
                "linear, 1/d": over(1 / d, m, init.kaiming_normal_, nonlinearity="linear"),
            },
            1 - MARGIN,
            1 + MARGIN,
            "variance of torch's kaiming_normal_ over the fan-in's",
        ),
    )


def _updates(depths, fan_in, given):  # type: ignore[no-untyped-def]
    """‖ΔF‖ per η, the feed-forward matrices rescaled to the convention: (seeds, depths)."""
    from deepnet_theory.spec.selection import Selection
    from paper_checks.shared.laboratory import Case, Trial, only
    from paper_checks.shared.streams import DEEPNORM, moved, np, per_token, torch

    columns = []
    for n in depths:
        trial = Trial(Case(Selection(optimizer="sgd"), DEEPNORM, {"N": n}, given))
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
    return np.array(columns).T


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
        "to 128 layers, SGD, text and Gaussian tokens of correlation 0 and ½"
    ),
    recorded=(
        Ruling(LABEL, Verdict.REFUTED),
        Ruling(SQUARE, Verdict.SUPPORTED),
        Ruling(FORWARD, Verdict.SUPPORTED),
        Ruling(XAVIER, Verdict.SUPPORTED, corrected=True),
        Ruling(SAME, Verdict.SUPPORTED),
        Ruling(BACKWARD, Verdict.SUPPORTED),
        Ruling(HE, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "The variances 2w²/d and v²/m are He's and LeCun's, not Xavier's, which is 2/(d + "
        "m); DeepNet's code uses the latter. Forward, 1/n is better: it gives "
        "the feed-forward branch the squared weight v²w² whatever the hidden width, of which "
        "Xavier leaves 0.50 at m = d and 0.32 at m = 4d. It costs nothing backward, where the "
        "branch is as large as forward in both conventions, and the update's exponent in depth "
        "is the same."
    ),
    counterexample=(
        "d = 1, m = 3: Xavier's variance is 1/2 for both matrices, 2/d = 2 and 1/m = 1/3."
    ),
    corrected=(
        "N(0, 2w²/d) is He's and N(0, v²/m) LeCun's initialisation. Both conventions give a "
        "branch of equal size forward and backward, v²w² and 2dm/(d + m)²·v²w²; the "
        "exponents in depth are the same."
    ),
    check=check,
    seconds=4.0,
)
