from paper_checks.shared.bench import Array, Claim, Finding, Interval, Lab, np, once
from paper_checks.shared.engine import across
from paper_checks.shared.record import PROVED, SUPPORTED

CLAIM = Claim(
    name="width-adapter-rank",
    source="""Chen, Villar and Hayou, 'Learning Rate Scaling across LoRA Ranks and Transfer to Full
        Finetuning', arXiv 2602.06204, abstract""",
    statement="""'We identify two regimes: one where the optimal learning rate remains roughly
        invariant across ranks, and another where it scales inversely with rank', depending on
        initialization and LoRA scaling factor.""",
    conditions="""W + c·BA of 64 × 64, W frozen, B at 0, A of normal entries of size n^{−1/2}, 4
        tokens; how far the first step of B, the sign of its gradient, moves their outputs along
        the gradient; ranks 4 to 64 (256 in the full run)""",
    finding="""Right, and the factor decides. With c = 1 a step of B changes the output by r times
        the rate: its rate must fall as 1/r. With c = α/r one rate works for every rank. With
        rsLoRA's c = α/√r it must fall as r^{−1/2}, where the tokens are those that made the
        gradient. The
        package derives the same, and a rate of A that takes no power of the rank.""",
    seconds=3,
)
SIDE, TOKENS = 64, 4


@CLAIM.stated("factor 1: a step changes the output as r, so that the rate scales as 1/r", SUPPORTED)
def inverse(lab: Lab) -> Finding:
    return lab.exponent(power(lab, 0.0), 1.0, (("√r", 0.5), ("flat", 0.0)))


@CLAIM.stated("factor α/r: a step changes the output alike at every rank", SUPPORTED)
def invariant(lab: Lab) -> Finding:
    return lab.exponent(power(lab, -1.0), 0.0, (("√r", 0.5), ("1/√r", -0.5)))


@CLAIM.ours("factor α/√r: as √r on the tokens of the batch", SUPPORTED)
def root(lab: Lab) -> Finding:
    return lab.exponent(power(lab, -0.5), 0.5, (("flat", 0.0), ("r", 1.0)))


@CLAIM.ours("the package derives rates of 1 for A and 1/r for B where the factor is 1", PROVED)
def derived(lab: Lab) -> Finding:
    found = {row["role"]: row["rate"] for row in across("rank", "adam")}
    return lab.proved(found == {"lora-a": "1", "lora-b": "1/r"}, f"rates of {found}")


def ranks(lab: Lab) -> tuple[int, ...]:
    return lab.pick((4, 8, 16, 32, 64), (4, 8, 16, 32, 64, 128, 256))


def power(lab: Lab, factor: float) -> Interval:
    """The exponent of the output's move with c = r^factor, per unit of rate."""
    at = ranks(lab)
    return lab.power(at, moves(lab) * np.array(at, dtype=float) ** factor)


@once
def moves(lab: Lab) -> Array:
    """How far the first step of B moves outputs along their gradient, c = 1: (seeds, ranks)."""
    source, found = np.random.default_rng(lab.seed), []
    for rank in ranks(lab):
        x = source.standard_normal((192, TOKENS, SIDE))
        back = source.standard_normal((192, TOKENS, SIDE))
        h = x @ source.standard_normal((192, SIDE, rank)) * SIDE**-0.5
        step = np.sign(np.swapaxes(back, 1, 2) @ h)
        found.append((back * (h @ np.swapaxes(step, 1, 2))).mean((1, 2)))
    return np.stack(found, axis=1)
