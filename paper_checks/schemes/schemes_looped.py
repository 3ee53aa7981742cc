from paper_checks.shared.bench import Array, Claim, Finding, Lab, judge, once
from paper_checks.shared.fitting import columns
from paper_checks.shared.record import SUPPORTED
from paper_checks.shared.stacks import Net, model_updates, sizes, watched

CLAIM = Claim(
    name="schemes-looped",
    source="""Wang et al., 'On the Residual Scaling of Looped Transformers', arXiv 2606.18524,
        abstract""",
    statement="""A block of L layers that is looped N times needs more than a branch times 1/√(NL):
        its uses are correlated. 1/(N√L) separates the two sources of growth, and the optimal
        learning rate then depends on L alone, not on N.""",
    conditions="""Pre-LN stacks of width 32 at initialisation, text, 400 seeds: two layers looped 4
        to 32 times, and 2 to 16 layers looped four times; one step of Adam or SGD""",
    finding="""Holds at initialisation, for Adam. At 1/√(NL) the stream of two looped layers grows
        as √N and Adam's update with it, as N^{0.39}. At 1/(N√L) both are constant in N, and over L
        the update grows as √L: a rate times 1/√L serves all N. That the rate follows L is a fact
        of Adam's update, and not of the looped stack: SGD feels the gradient, which falls as 1/√L,
        and one rate serves every L and every N. What is not tried here: the loss of long
        trainings.""",
    seconds=25,
)
# a layer's branch over the number of loops and the root of the number of layers
FACTORED, ROOT = "{loops}*sqrt({layers})", "sqrt(N)"
LOOPED, LAYERS = {"loops": "N/2", "layers": "2"}, {"loops": "4", "layers": "N/4"}
DEPTHS, SEEDS = (8, 16, 32, 64), 400  # layers of all loops


def net(weaker: bool, of: dict[str, str], optimizer: str) -> Net:
    """Layers of both kinds of depth, at one of the two factors."""
    alpha = ROOT if weaker else FACTORED.format(**of)
    return Net(alpha, "1", optimizer, "branch-multiplier", uses=of["loops"])


@once
def streams(lab: Lab) -> dict[bool, Array]:
    """The stream's rms above the last layer over that below the first: (seeds, depths)."""
    found = {}
    for weaker in (True, False):
        grown = []
        for layers in DEPTHS:
            trial = net(weaker, LOOPED, "adam").trial(layers, lab.small(seeds=SEEDS))
            with watched(trial) as sublayers:
                trial.output()
            first, last = sizes([trial.inputs[-1], sublayers[-1][-1]]).T
            grown.append(last / first)
        found[weaker] = columns(grown)
    return found


@judge
def stream(lab: Lab, weaker: bool, exponent: float) -> Finding:
    rival = ("uses that are independent", 0.0) if weaker else ("1/√(NL)", 0.5)
    found = lab.power(DEPTHS, streams(lab)[weaker])
    return lab.exponent(found, exponent, (rival,), what="exponent in N of the stream")


@judge
def update(lab: Lab, of: dict[str, str], optimizer: str, exponent: float) -> Finding:
    found = model_updates(net(False, of, optimizer), DEPTHS, lab.small(seeds=SEEDS))
    rival = ("the rate follows it", 0.5) if exponent == 0 else ("the rate does not", 0.0)
    return lab.exponent(lab.power(DEPTHS, found), exponent, (rival,))


CLAIM.stated("at 1/√(NL) the stream grows with the loops, as √N", SUPPORTED)(stream(True, 0.5))
CLAIM.stated("at 1/(N√L) it is constant in the loops", SUPPORTED)(stream(False, 0.0))
CLAIM.stated("there Adam's update is constant in the loops", SUPPORTED)(update(LOOPED, "adam", 0.0))
CLAIM.stated("and follows the layers, as √L", SUPPORTED)(update(LAYERS, "adam", 0.5))


@CLAIM.ours("at 1/√(NL) Adam's update grows with the loops", SUPPORTED)
def grows(lab: Lab) -> Finding:
    found = model_updates(net(True, LOOPED, "adam"), DEPTHS, lab.small(seeds=SEEDS))
    return lab.at_least(lab.power(DEPTHS, found), 0.25, "exponent of ‖ΔF‖/η in N")


CLAIM.ours("SGD's update is constant in the loops", SUPPORTED)(update(LOOPED, "sgd", 0.0))
CLAIM.ours("and in the layers", SUPPORTED)(update(LAYERS, "sgd", 0.0))
