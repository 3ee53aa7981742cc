import math
from typing import Any

from deepnet_theory.definitions.constants import Constants
from deepnet_theory.definitions.sublayer import STEPPED
from paper_checks.shared.bench import Claim, Finding, Interval, Lab, Tensor, numeric, once, torch
from paper_checks.shared.record import DEEPNET, MARGIN, SUPPORTED, UNDECIDED
from paper_checks.shared.training import above_bytes, deepnorm, ends, model_constants, train_model

CLAIM = Claim(
    name="deepnet-trains",
    source=f"{DEEPNET}, §3, §5 and abstract",
    statement="""Post-LN fails to train where DeepNorm trains stably: 100 layers and more, no
        warm-up; 1,000 layers train without difficulty.""",
    conditions="""byte-level causal stacks of width 16 and 32 on real text (Python's documentation),
        Adam at 3·10⁻³ without warm-up, 150 to 400 steps, three to four seeds; one SGD step at 1,000
        layers""",
    finding="""At 24 layers without warm-up plain Post-LN does not get below the entropy of the byte
        frequencies in 400 steps, while DeepNorm on the same windows reaches 2.55 nats (0.71 less).
        At 100 layers DeepNorm trains at 10⁻³: after 250 steps its loss is 0.44 nats lower than the
        entropy of the byte frequencies, plain Post-LN's 0.04 higher. At 3·10⁻³, the rate of the
        24-layer run, it learns no more than plain Post-LN. This is expected, since its update grows
        as N^{1/2} under Adam. A stack of 1,000 layers takes a step that changes its output as much
        as one of 10 does (exponent −0.007); its training is not tested, for one step is none.""",
    corrected="""DeepNorm trains without warm-up where plain Post-LN does not, at a rate that under
        Adam has to fall with depth.""",
    would_decide="""A training of 1,000 layers at the paper's width and data: its loss falls without
        divergence to that of a shallower stack or below, at a rate found without a search.""",
    seconds=(33, 327),
)
AT_100 = "minus byte frequencies, nats, after 250 steps"


@CLAIM.stated("plain Post-LN of 24 layers, no warm-up: no better than byte frequencies", SUPPORTED)
def stuck(lab: Lab) -> Finding:
    losses, last = at_24(lab)["plain"], lab.pick(30, 60)
    what = f"plain Post-LN, {ends(losses, last).mean():.3f} nats, minus byte frequencies"
    gap = lab.mean(above_bytes(losses, last, **windows(lab)))
    return lab.at_least(gap, -MARGIN, what, curve=curve(losses))


@CLAIM.stated(
    "DeepNorm of 24 layers, same data, seeds and rate: lower in perplexity by 5 % or more",
    SUPPORTED,
)
def trains(lab: Lab) -> Finding:
    deep, last = at_24(lab)["DeepNorm"], lab.pick(30, 60)
    what = f"DeepNorm, {ends(deep, last).mean():.3f} nats, minus plain"
    gap = lab.mean(ends(deep, last) - ends(at_24(lab)["plain"], last))
    return lab.at_most(gap, -MARGIN, what, 0.0, curve=curve(deep))


@CLAIM.stated("1,000 layers train without difficulty", UNDECIDED)
def thousand(lab: Lab) -> Finding:
    return lab.undecided("a step of 1,000 layers was taken here; no training of as many was run")


@CLAIM.ours("1,000 layers: a training step with finite loss and gradients", SUPPORTED)
def finite(lab: Lab) -> Finding:
    found = first_steps(lab)
    loss = {layers: values[0][0] for layers, values in found.items()}
    return lab.seen(
        all(math.isfinite(x) for values in found.values() for pair in values for x in pair),
        f"loss {loss[1000]:.3f} at 1,000 layers, {loss[10]:.3f} at 10",
    )


@CLAIM.ours("and an SGD step changes the output as much as at 10 layers", SUPPORTED)
def moves(lab: Lab) -> Finding:
    found = first_steps(lab)
    pairs = zip(found[1000], found[10], strict=True)
    exponent = lab.mean([math.log(deep[1] / flat[1]) / math.log(100) for deep, flat in pairs])
    what = "exponent of ‖ΔF‖/η of one SGD step, 10 to 1,000"
    return lab.within(exponent, -MARGIN, MARGIN, what)


@CLAIM.stated(
    "100 layers, Adam at 10⁻³: DeepNorm is below byte frequencies by 5 % in perplexity or more",
    None,
    full=SUPPORTED,
)
def hundred(lab: Lab) -> Finding:
    return lab.at_most(at_100(lab, deepnorm(100), 1e-3), -MARGIN, f"DeepNorm {AT_100}", 0.0)


@CLAIM.stated("100 layers, Adam at 10⁻³: plain Post-LN is not", None, full=SUPPORTED)
def hundred_plain(lab: Lab) -> Finding:
    return lab.at_least(at_100(lab, plain(100), 1e-3), -MARGIN, f"plain {AT_100}")


@CLAIM.ours(
    "100 layers at the rate of the 24-layer run, 3·10⁻³: DeepNorm does not train either",
    None,
    full=SUPPORTED,
)
def hundred_faster(lab: Lab) -> Finding:
    return lab.at_least(at_100(lab, deepnorm(100), 3e-3), -MARGIN, f"DeepNorm {AT_100}")


def windows(lab: Lab, seeds: int = 4) -> dict[str, Any]:
    """What is read, the same for every network."""
    return {"seed": lab.seed, "seeds": seeds, "batch": 4}


def plain(layers: int) -> Constants:
    """Plain Post-LN."""
    return model_constants(layers, 1.0, 1.0)


@once
def at_24(lab: Lab) -> dict[str, Tensor]:
    """The losses (steps, seeds) of 24 layers."""
    nets, steps = {"plain": plain(24), "DeepNorm": deepnorm(24)}, lab.pick(150, 400)
    return {n: train_model(net, steps, 3e-3, **windows(lab))[0] for n, net in nets.items()}


def at_100(lab: Lab, net: Constants, rate: float) -> Interval:
    """The loss of 100 layers after 250 steps over that of the byte frequencies."""
    chosen = windows(lab, seeds=3)
    return lab.mean(above_bytes(train_model(net, 250, rate, **chosen)[0], 50, **chosen))


def curve(losses: Tensor) -> list[float]:
    """The mean loss of every tenth of the steps."""
    return [round(float(v), 3) for v in losses.mean(1)[:: max(1, len(losses) // 10)]]


@once
def first_steps(lab: Lab) -> dict[int, list[tuple[float, float]]]:
    """The loss and the output's move per η of every seed, of 1,000 layers and of 10."""
    seeds = [10_000 * lab.seed + seed for seed in range(lab.pick(4, 8))]
    return {layers: [first_step(layers, seed) for seed in seeds] for layers in (1000, 10)}


def first_step(layers: int, seed: int) -> tuple[float, float]:
    """The loss of a width-16 stack and its output's move per η under one small SGD step.

    The window, the embedding and the head are those of every depth.
    """
    inner, outer, data = (torch.Generator().manual_seed(seed + n) for n in (0, 1000, 2000))
    model = numeric.build(deepnorm(layers, 16), generator=inner, embedding_generator=outer)
    matrices = [p for p, d in numeric.described(model) if d.role in STEPPED["matrices"]]
    window = numeric.text_windows(1, 17, data)
    x = model.embed(window[:, :-1]).detach()
    before = model.body(x)
    logits = model.head(before).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, window[:, 1:].flatten())
    gradients, eta = torch.autograd.grad(loss, matrices), 1e-3
    with torch.no_grad():
        for p, g in zip(matrices, gradients, strict=True):
            p.sub_(eta * g)
        change = (model.body(x) - before).norm(dim=-1).mean() / eta
    return float(loss.detach()), float(change)
