import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from paper_checks.shared.bench import Array, Claim, Finding, Lab, Trial, judge, np, numeric, once
from paper_checks.shared.engine import derive
from paper_checks.shared.record import DEEPNET, MARGIN, REFUTED, SUPPORTED
from paper_checks.shared.stacks import DEEPNORM, Net, per_token, update_exponents
from paper_checks.shared.training import descend

CLAIM = Claim(
    name="deepnet-constant-update",
    source=f"{DEEPNET}, Figure 5 and §4.3",
    statement="""At the early stage of training, from 6 to 100 layers, the model update of DeepNet
        is nearly constant under Adam, while Post-LN's explodes.""",
    conditions="""the first 8 to 20 steps of Adam at 10⁻⁵ and 10⁻⁴ on the matrices of built
        encoders, 6 to 100 layers, on fresh text, in full also of the figure's encoder–decoders
        (64-128-2); the first step alone on text and Gaussian tokens""",
    finding="""The update is not constant. In the first steps of Adam DeepNorm's update grows 4
        times from 6 to 100 layers in an encoder (exponent 0.49 at both rates), and 3.3 to 3.8 times
        in the figure's own encoder–decoder (0.43 and 0.48). The degrees of the update predict this;
        under SGD it is constant. Plain Post-LN's grows 13- and 8-fold at 10⁻⁵ and is 28 and 35
        times larger at 100 layers, beside it DeepNorm's may well look nearly constant in a figure.
        At 10⁻⁴ Post-LN's normalised output can hardly move further: there it is 8 and 5 times
        larger.""",
    counterexample="""100 layers instead of 6, 20 steps at 10⁻⁵: an update changes the output of an
        encoder by 0.0088 a token instead of 0.0022 (√(100/6) = 4.1).""",
    corrected="""Under Adam the updates of DeepNorm grow as N^{1/2}, from the first one on; they are
        constant under SGD, and under Adam with α = (2N)^{1/2}, β = (2N)^{−1/2} (deepnet-adam).""",
    seconds=(16, 65),
)

ADAM = Net(DEEPNORM.alpha, DEEPNORM.beta, "adam")
TRAINED = (6, 25, 100)  # layers of each part
DOUBLED = math.log(2) / math.log(100 / 6)  # the exponent of what doubles from 6 to 100 layers
FIGURE = "the figure's encoder–decoder"


@judge
def growth(lab: Lab, name: str, low: float, high: float) -> Finding:
    """The exponent of a network's updates along a training, held against an interval."""
    found = {k: lab.power(TRAINED, v) for k, v in trained(lab)[name].items()}
    levels = {k: v.mean(0).tolist() for k, v in trained(lab)[name].items()}
    what = "exponent in N of ‖F_{t+1} − F_t‖, mean of the steps"
    return lab.within(found, low, high, what, levels=levels)


CLAIM.stated(
    "DeepNorm under Adam, a short training: updates less than doubled from 6 to 100 layers", REFUTED
)(growth("DeepNorm", -DOUBLED, DOUBLED))
CLAIM.stated("plain Post-LN's grow along it", SUPPORTED)(growth("plain", MARGIN, math.inf))


@CLAIM.ours(
    "at 100 layers and a rate of 10⁻⁵ DeepNorm's are less than a tenth of plain Post-LN's",
    SUPPORTED,
)
def much_smaller(lab: Lab) -> Finding:
    plain, deep = (trained(lab)[name] for name in ("plain", "DeepNorm"))
    ratios = {k: lab.mean(np.log(plain[k][:, -1] / deep[k][:, -1])) for k in deep if "1e-05" in k}
    # "much smaller" is read as an order of magnitude
    what = "logarithm of the ratio of the mean updates at 100 layers"
    return lab.at_least(ratios, math.log(10), what)


@judge
def first_step(lab: Lab, net: Net, exponent: float, *rivals: tuple[str, float]) -> Finding:
    """The exponent of the first step, by data."""
    at = lab.pick((6, 18, 50, 100), (6, 12, 18, 25, 50, 100))
    conditions = {d: lab.small(data=d) for d in lab.pick(("text",), ("text", "gaussian:0"))}
    found = update_exponents(net, at, conditions, lab.power)
    return lab.exponent(found, exponent, rivals, what="exponent of ‖ΔF‖/η in N")


CLAIM.correction("DeepNorm under Adam grows as N^{1/2}, first step", SUPPORTED)(
    first_step(ADAM, 0.5, ("constant", 0.0), ("plain", 1.0))
)
CLAIM.ours("DeepNorm under SGD is constant, first step", SUPPORTED)(
    first_step(DEEPNORM, 0.0, ("half", 0.5))
)


@once
def trained(lab: Lab) -> dict[str, dict[str, Array]]:
    """The mean update along a short training, (seeds, depths), by network and condition."""
    found: dict[str, dict[str, Array]] = {"DeepNorm": {}, "plain": {}}
    for name, of_network in found.items():
        for stack in lab.pick(("encoder",), ("encoder", FIGURE)):
            for rate in (1e-5, 1e-4):
                of_network[f"{stack}, rate {rate:g}"] = lab.columns(
                    along(drawn(lab, name, stack, n), rate, lab.pick(8, 20)) for n in TRAINED
                )
    return found


def drawn(lab: Lab, name: str, stack: str, layers: int) -> Trial:
    """An encoder, or the figure's "64-128-2" encoder–decoder with N = M; published or plain."""
    if stack == "encoder":
        net = ADAM if name == "DeepNorm" else Net(optimizer="adam")
        return net.trial(layers, lab.small(seeds=12))
    selection = Selection(optimizer="adam", stack="encoder-decoder", closure="published")
    published = derive(optimizer="sgd", stack="encoder-decoder", method="lemma").rule
    rule = published if name == "DeepNorm" else own_rule(("encoder", "decoder"), "1", "1")
    sizes = lab.small(width=64, heads=2, ffn_ratio=2.0, seeds=4)
    return numeric.Trial(numeric.Case(selection, rule, {"N": layers, "M": layers}, sizes))


def along(trial: Trial, rate: float, steps: int) -> Array:
    """The mean over the steps of ‖F(x; θ_{t+1}) − F(x; θ_t)‖ per token of a fixed x: (seeds,)."""
    s, outputs = trial.settings, list[Any]()
    *memory, x = trial.inputs
    parameters = [p for p, _ in trial.parameters()]
    for p in parameters:
        p.requires_grad_(True)

    def batches() -> Iterator[Any]:
        for step in range(steps + 1):
            trial.see(numeric.draw_batch(s, trial.seeds, len(trial.inputs), 1000 + step))
            yield trial.batch.targets

    def watch(_: int) -> None:
        outputs.append(trial.model.body(x, *memory).detach().double())

    descend("adam", parameters, rate, batches(), lambda _: trial.loss(trial.output()), watch)
    return np.asarray(Lab.columns(per_token(b - a) for a, b in pairwise(outputs)).mean(1))
