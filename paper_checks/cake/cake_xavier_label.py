from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, judge, once, torch
from paper_checks.shared.changes import sgd_move
from paper_checks.shared.record import CAKE, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, per_token
from paper_checks.shared.sublayer import feed_forward, normalised

CLAIM = Claim(
    name="cake-xavier-label",
    source=f"""{CAKE}, §3, note in brackets, and §5.1 ('by the Xavier normal initialisation
        introduced above')""",
    statement="""w_ij ~ N(0, 2w²/d) is Kaiming's practice, v_ij ~ N(0, v²/m) what is called Xavier
        normal here; for this paper 1/n_in is better than the standard 2/(n_in + n_out).""",
    conditions="""torch's own initialisers; feed-forward branches with m = 4d; DeepNorm encoders of
        8 to 128 layers, SGD, text and Gaussian tokens of correlation 0 and ½""",
    finding="""Forward, 1/n is better as the source says: it gives the feed-forward branch the
        squared weight v²w² whatever the hidden width; Xavier's 2/(d + m) leaves 0.50 at m
        = d and 0.32 at m = 4d. It costs nothing backward, where the branch is as large as forward
        in both conventions, and the update's exponent in depth is the same. A note on the name:
        2w²/d and v²/m are He's and LeCun's variances, as the source knows, and not those of
        xavier_normal_, which DeepNet's code uses.""",
    counterexample=(
        "d = 1, m = 3: Xavier's variance is 1/2 for both matrices, 2/d = 2 and 1/m = 1/3."
    ),
    corrected="""N(0, 2w²/d) is He's and N(0, v²/m) LeCun's initialisation. Both conventions give a
        branch of equal size forward and backward, v²w² and 2dm/(d + m)²·v²w²; the exponents in
        depth are the same.""",
    seconds=4.0,
)
D, M = 64, 256


@judge
def branches(lab: Lab, which: str, convention: str = "") -> Finding:
    """A branch's squared size over its prediction at v = w = 1, where the convention is so."""
    chosen = {k: i for k, i in sizes(lab)[which].items() if k.startswith(convention)}
    return lab.ratio(chosen, f"squared size of the branch over its prediction, {which}")


CLAIM.stated("forward 1/n is better: the branch has squared weight v²w² whatever m/d", SUPPORTED)(
    branches("forward", "fan-in")
)


@CLAIM.stated("2w²/d is He's (fan-in, gain √2), and v²/m is fan-in's", SUPPORTED)
def he(lab: Lab) -> Finding:
    draw = torch.nn.init.kaiming_normal_
    found = {
        "ReLU, 2/d": over(lab, 2 / D, M, draw, nonlinearity="relu"),
        "linear, 1/d": over(lab, 1 / D, M, draw, nonlinearity="linear"),
    }
    return lab.ratio(found, "variance of torch's kaiming_normal_ over the fan-in's")


@CLAIM.ours("variances 2w²/d and v²/m are what xavier_normal_(gain=β) draws", REFUTED)
def xavier_normal(lab: Lab) -> Finding:
    beta, draw = 0.5, torch.nn.init.xavier_normal_
    found = {
        "2w²/d": over(lab, 2 * beta**2 / D, M, draw, gain=beta),
        "v²/m": over(lab, beta**2 / M, M, draw, gain=beta),
    }
    return lab.ratio(found, f"variance of torch's xavier_normal_, d = {D}, m = {M}, over")


@CLAIM.ours("they coincide with it up to constants where m = d", SUPPORTED)
def square(lab: Lab) -> Finding:
    found = over(lab, 1 / D, D, torch.nn.init.xavier_normal_)
    what = "variance of torch's xavier_normal_ over 1/d, m = d: V's, and W's without ReLU's 2"
    return lab.ratio(found, what)


CLAIM.correction("Xavier's variance multiplies the branch's v²w² by 2dm/(d + m)²", SUPPORTED)(
    branches("forward", "Xavier")
)


@CLAIM.ours(
    "for the update it makes no difference: ‖ΔF‖/η has the same exponent in depth", SUPPORTED
)
def same_exponent(lab: Lab) -> Finding:
    slopes = {}
    for data in lab.texts():
        one, other = (updates(lab, data, fan_in=which) for which in (True, False))
        slopes[data] = lab.power(lab.shallow(), one / other)
    what = "exponent in N of ‖ΔF‖/η with fan-in over that with Xavier"
    return lab.exponent(slopes, 0.0, what=what)


CLAIM.ours("both conventions make the branch equally large forward and backward", SUPPORTED)(
    branches("backward over forward")
)


def over(lab: Lab, claimed: float, rows: int, draw: Any, **given: Any) -> Interval:
    """The variance that ``draw`` gives a (rows, d) matrix, over the claimed one."""
    g = lab.generator(9)
    matrices = torch.empty(16, rows, D, dtype=torch.float64)
    drawn = [draw(w, generator=g, **given).square().mean().item() for w in matrices]
    return lab.mean([square / claimed for square in drawn])


@once
def sizes(lab: Lab) -> dict[str, dict[str, Interval]]:
    """Forward over its prediction, and backward over forward, of relu(xW)V."""
    g = lab.generator(9)
    found: dict[str, dict[str, Interval]] = {"forward": {}, "backward over forward": {}}
    for ratio in (1, 4):
        m = ratio * D
        W, V = feed_forward(g, lab.pick(400, 1000), D, m, 1.0, 1.0)
        x = normalised(g, len(W), 16, D)
        signal = torch.randn(len(W), 16, D, generator=g, dtype=torch.float64)
        shrunk = (D / (D + m)) ** 0.5 * W, (2 * m / (D + m)) ** 0.5 * V
        left = 2 * ratio / (1 + ratio) ** 2
        for name, (first, second), share in (("fan-in", (W, V), 1.0), ("Xavier", shrunk, left)):
            hidden = x @ first
            ahead = (torch.relu(hidden) @ second).square().mean((1, 2))
            back = ((signal @ second.mT * (hidden > 0)) @ first.mT).square().mean((1, 2))
            label = f"{name}, m = {ratio}d, {share:.2f}"
            found["forward"][label] = lab.mean(ahead / share)
            size = signal.square().mean((1, 2))
            found["backward over forward"][label] = lab.mean(back / size / ahead.mean())
    return found


def updates(lab: Lab, data: str, *, fan_in: bool) -> Array:
    """‖ΔF‖/η, the feed-forward matrices rescaled to the convention: (seeds, depths)."""
    s = lab.small(seeds=16, data=data)
    d, m = s.width, round(s.ffn_ratio * s.width)
    rescaled = {"fc1": (2 / d * (d + m) / 2) ** 0.5, "fc2": (1 / m * (d + m) / 2) ** 0.5}
    scale = (lambda one: rescaled.get(one.name, 1.0)) if fan_in else None
    trials = (DEEPNORM.trial(n, s, scale) for n in lab.shallow())
    return lab.columns(per_token(sgd_move(trial, 1e-3)) for trial in trials)
