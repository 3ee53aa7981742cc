import math
from dataclasses import dataclass
from typing import Any

from paper_checks.shared.bench import Array, Claim, Finding, Lab, Settings, Trial, np, once, torch
from paper_checks.shared.later import numeric
from paper_checks.shared.record import REFUTED, SUPPORTED, UNDECIDED
from paper_checks.shared.stacks import Gradient, Net, own_updates
from paper_checks.shared.training import ends, model_constants, train_model

CLAIM = Claim(
    name="schemes-sp-appears",
    source="""Zheng et al., 'Spectral Condition for μP under Width–Depth Scaling', arXiv 2603.00541,
        §5.4""",
    statement="""With LayerNorm and normalised queries and keys the learning rate of the standard
        parametrisation appears to transfer over 4 to 256 layers.""",
    conditions="""Pre-LN stacks of width 32 with a LayerNorm on the queries and keys of every head,
        on text: one sign step at 4 to 256 layers; 4 and 16 layers trained for 100 steps of Adam,
        rates by factors of two, eight seeds""",
    finding="""Normalised queries and keys take nothing off what depth does: one sign step changes
        the output as N^{0.63} from 4 to 256 layers with them and without them. Trained for 100
        steps at width 32 the best rate falls from 4 to 16 layers, with the
        exponent −0.30 [−0.49, −0.12]. That may well
        appear to transfer: the best point of a grid by factors of two is in doubt by half a step
        either way, which over 4 to 256 layers is an exponent of 0.17, and over neighbouring depths
        more. Whether the fall goes on to 256 layers, and after a long training, is not settled
        here.""",
    counterexample="""From 4 to 16 layers of width 32, 100 steps of Adam, the best rate falls by a
        factor of 1.5, the mean of eight seeds.""",
    corrected="""In the standard parametrisation an update grows as N^{1/2} or faster, with or
        without norms on queries and keys, and the best rate of a short training falls with
        depth.""",
    would_decide="""Trainings of 4, 16, 64 and 256 layers to a fixed number of tokens, each over
        rates by factors of √2, with the seeds that the part computes: the exponent of the best
        rate, with its interval, lies inside ±1/16 or does not. Would not: the best point of a grid
        by factors of two, curves that are flat near their lowest loss, or sizes of activations.""",
    seconds=60,
)
SAME = 1 / 16  # what an exponent of the rate may be where it transfers
FACTOR = 64  # of the depths that the source speaks of
RATES = (2e-3, 4e-3, 8e-3, 16e-3)
STEPS, SEEDS = 100, 8


@CLAIM.ours("one update changes the output alike at 4 to 256 layers", REFUTED)
def update(lab: Lab) -> Finding:
    return lab.exponent(lab.power(DEPTHS, steps(lab)["normalised"]), 0.0)


@CLAIM.stated("the best rate is the same at 4 and 16 layers", REFUTED)
def best(lab: Lab) -> Finding:
    found = lab.power(TRAINED, best_rates(lab))
    return lab.within(found, -SAME, SAME, "exponent in depth of the best rate")


@CLAIM.stated("and after a long training, up to 256 layers", UNDECIDED)
def long(lab: Lab) -> Finding:
    at, rates = TRAINED, best_rates(lab)
    spread = np.log(rates).std(0, ddof=1).max()
    # of a slope between two depths: two standard errors are to be no more than SAME
    needed = math.ceil(2 * (2 * spread / (SAME * math.log(FACTOR))) ** 2)
    grid = math.log(2) / math.log(FACTOR)
    told = f"log of the best rate varies by {spread:.2f} between seeds"
    return lab.undecided(
        f"{told}: {needed} seeds at 4 and at 256 layers would hold the exponent to ±1/16, "
        f"each over at least four rates; the best point of a grid by factors of two alone holds "
        f"it to ±{grid:.2f}; {max(at)} layers were trained here",
        seeds=needed,
        grid=grid,
    )


@CLAIM.ours("normalised queries and keys do not change the exponent of an update", SUPPORTED)
def alike(lab: Lab) -> Finding:
    found = steps(lab)
    return lab.exponent(lab.power(DEPTHS, found["normalised"] / found["plain"]), 0.0)


@CLAIM.correction("it grows as N^{1/2} or faster", SUPPORTED)
def grows(lab: Lab) -> Finding:
    found = lab.power(DEPTHS, steps(lab)["normalised"])
    return lab.at_least(found, 0.5, "exponent of ‖ΔF‖/η in N")


@CLAIM.correction("the best rate of a short training falls with depth", SUPPORTED)
def falls(lab: Lab) -> Finding:
    found = lab.power(TRAINED, best_rates(lab))
    return lab.at_most(found, -SAME, "exponent in depth of the best rate", 0.0)


DEPTHS, TRAINED = (4, 16, 64, 256), (4, 16)


@dataclass(frozen=True)
class Normalised(Net):
    """A network with a norm on queries and keys."""

    def trial(self, layers: int, settings: Settings, scale: Any = None) -> Trial:
        """The stacks of all seeds."""
        trial = super().trial(layers, settings, scale)
        normalise(trial.model, settings.heads)
        return trial


def normalise(model: Any, heads: int) -> None:
    """A LayerNorm, without gains, on the queries and keys of every head of a model."""

    def normed(_: Any, __: Any, made: Any) -> Any:
        by_head = made.unflatten(-1, (heads, -1))
        return torch.nn.functional.layer_norm(by_head, by_head.shape[-1:]).flatten(-2)

    for residual in model.residuals():
        for name in ("query", "key"):
            if hasattr(residual.branch, name):
                getattr(residual.branch, name).register_forward_hook(normed)


@once
def steps(lab: Lab) -> dict[str, Array]:
    """‖ΔF‖/η of one sign step, (seeds, depths), with and without these norms."""
    eta = 1e-4

    def step(g: Gradient) -> None:
        g.theta.add_(g.g.sign(), alpha=-eta)

    nets = {"normalised": Normalised(placement="pre-ln"), "plain": Net(placement="pre-ln")}
    s = lab.small(seeds=16)
    return {name: own_updates(net, DEPTHS, s, eta, step) for name, net in nets.items()}


@once
def best_rates(lab: Lab) -> Array:
    """The rate with the lowest loss at the end of a training, by depth: (seeds, depths)."""
    read = {"seed": lab.seed, "seeds": SEEDS, "batch": 4}
    found = []
    for layers in TRAINED:
        constants, losses = model_constants(layers, 1.0, 1.0, 32, "pre-ln"), []
        for rate in RATES:
            source = torch.Generator().manual_seed(lab.seed)
            model = numeric.build(constants, seeds=SEEDS, generator=source)
            normalise(model, constants.architecture.heads)
            made, _ = train_model(constants, STEPS, rate, start=model, **read)
            losses.append(ends(made, STEPS // 4))
        found.append([vertex(one) for one in np.array(losses).T])
    return np.array(found).T


def vertex(losses: Array) -> float:
    """The least point of the parabola in log η through the best rate and its neighbours."""
    middle = min(max(int(losses.argmin()), 1), len(RATES) - 2)
    near = slice(middle - 1, middle + 2)
    a, b, _ = np.polyfit(np.log(RATES[near]), losses[near], 2)
    return float(np.exp(-b / (2 * a)))
