from dataclasses import dataclass

from paper_checks.shared.bench import Array, Claim, Finding, Fit, Lab, once
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.stacks import Net, Pass, many_per_depth, sizes

CLAIM = Claim(
    name="su-warmup",
    source=f"{SU}, §Increment explosion, last paragraph",
    statement="""A learning rate of at most η/N at the start (warm-up) keeps the increment constant
        in depth.""",
    conditions="""stacks without a rule, 8 to 256 layers, width 32; increments of SGD and Adam;
        text, independent and correlated tokens""",
    finding="""η/N is exactly right where every matrix gradient is of order one, which is the
        sentence's premise, and it stops the growth in plain post-LN, whose typical increment then
        falls (exponents near −0.4; SGD's mean over seeds is carried by a few of them, and 96 do not
        settle its exponent). As an upper bound on the rate it is safe for a typical stack. As a
        recipe it overshoots in plain pre-LN, where the premise fails and the increment then falls
        as N^{−0.7} under SGD and N^{−0.4} to N^{−0.5} under Adam: there Adam needs about η/√N.""",
    counterexample="""Plain pre-LN with rate η/N, text, width 32: Adam's increment per η is 43, 25
        and 13 at 8, 32 and 128 layers.""",
    corrected="""The rate that keeps the increment constant is η over its growth without a rule: N
        for gradients of order one, Σ_l 1/x_l ~ √N for plain pre-LN under Adam (for SGD there see
        su-prenorm-needed).""",
    seconds=(18, 49),
)


@CLAIM.stated(
    "η/N keeps the increment constant where every matrix gradient is O(1) (α = λ = (2N)^{−1/2})",
    SUPPORTED,
)
def linear(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["unit"].increments, 0.0, (("no warm-up", 1.0),))


@CLAIM.stated(
    "η/N keeps the increment of plain post-LN from growing, in the typical seed", SUPPORTED
)
def bound(lab: Lab) -> Finding:
    post = measured(lab)["post-LN"]
    means = {label: fit.to_dict() for label, fit in post.of_means.items()}
    return lab.at_most(post.increments, 0.0, "exponent", mean_over_seeds=means)


@CLAIM.ours("η/N keeps it constant in plain pre-LN under SGD and Adam", REFUTED)
def plain(lab: Lab) -> Finding:
    return lab.exponent(measured(lab)["pre-LN"].increments, 0.0)


@CLAIM.correction(
    "plain pre-LN under Adam: η over Σ_l 1/x_l, the stream's sizes, keeps it from growing",
    SUPPORTED,
)
def matched(lab: Lab) -> Finding:
    return lab.at_most(measured(lab)["pre-LN"].over_stream, 0.0, "exponent")


@dataclass(frozen=True)
class Fits:
    """Exponents with the rate η/N, of the typical seed and of means, and with η over Σ 1/x."""

    increments: dict[str, Fit]
    of_means: dict[str, Fit]
    over_stream: dict[str, Fit]


@once
def measured(lab: Lab) -> dict[str, Fits]:
    """By stack."""
    # plain post-LN multiplies random factors: its increment varies by orders between seeds
    nets = {
        "unit": (Net("(2*N)**(-1/2)", "(2*N)**(-1/2)"), (8, 32, 128)),
        "post-LN": (Net(), (16, 64, 256)),
        "pre-LN": (Net(placement="pre-ln"), (8, 32, 128)),
    }
    return {name: of_net(lab, net, at) for name, (net, at) in nets.items()}


def of_net(lab: Lab, net: Net, at: tuple[int, ...]) -> Fits:
    """One stack under every condition."""
    quantities = {
        "sgd": Pass.squared,
        "adam": Pass.absolute,
        "stream": lambda p: (1 / sizes(p.states[:-1])).sum(1),
    }
    found = Fits({}, {}, {})
    data = ("independent tokens", "correlated tokens")
    for label, s in lab.varied(data, seeds=96).items():
        of: dict[str, Array] = many_per_depth(net, at, s, quantities, at_once=32)
        for optimizer in ("sgd", "adam"):
            increment = of[optimizer] / at
            found.increments[f"{optimizer}, {label}"] = lab.settled(at, increment)
            # of eight groups of seeds: an expectation, where the typical differs
            means = increment.reshape(8, -1, len(at)).mean(axis=1)
            found.of_means[f"{optimizer}, {label}"] = lab.settled(at, means)
        found.over_stream[label] = lab.settled(at, of["adam"] / of["stream"])
    return found
