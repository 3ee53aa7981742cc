from collections.abc import Callable, Sequence
from dataclasses import replace

from paper_checks.shared.bench import Array, Claim, Finding, Fit, Lab, Settings, Tensor, once
from paper_checks.shared.record import REFUTED, SU, SUPPORTED
from paper_checks.shared.rules import PUBLISHED
from paper_checks.shared.stacks import Net, Pass, many_per_depth

CLAIM = Claim(
    name="su-single-head",
    source=f"{SU}, §Self-attention, above the first equation",
    statement="""For an analysis of orders a single head suffices, and the scale of the attention
        scores can be left out.""",
    conditions="""post-LN encoder under SGD's and Adam's rules, 1 to 16 heads, width 32, 12 to 1024
        layers, text and independent tokens; increments ‖∇L‖² and ‖∇L‖₁""",
    finding="""One head is enough: with 1, 8 and 16 heads the increments agree within 1 % and their
        exponents between 16 and 144 layers are −0.00 to −0.02 under SGD's and Adam's rules. The
        scale can be left out of the order, too, but only at large depth: without 1/√h query and key
        have a share of the increment that falls only as N^{−1/2}, and SGD's exponent is −0.09 ±
        0.01 for independent tokens from 16 layers on (−0.04 on text, Adam's −0.01 to −0.02), −0.02
        to −0.03 from 256.""",
    counterexample="""Width 32, one head, independent tokens, SGD's rule without the scale: ‖∇L‖² is
        0.422, 0.376 and 0.346 at 16, 48 and 144 layers; with it 0.205, 0.202 and 0.199.""",
    corrected="""Without the scale the increments are constant once query's and key's share, which
        falls as N^{−1/2}, is small: from 256 layers on at head width 32.""",
    seconds=(20, 110),
)

LINEAR = (("linear growth", 1.0),)
DEEP = (256, 512, 1024)


@CLAIM.stated("the increments' exponents in depth are 0 with 1 head as with 8", SUPPORTED)
def heads(lab: Lab) -> Finding:
    found = {
        f"{label}, {count} heads": lab.settled(lab.depths(), of["all"])
        for label, by_count in scaled(lab).items()
        for count, of in by_count.items()
    }
    return lab.exponent(found, 0.0, LINEAR)


@CLAIM.stated("the number of heads does not change the increments", SUPPORTED)
def size(lab: Lab) -> Finding:
    found = {}
    for label, by_count in scaled(lab).items():
        deepest = lab.columns(of["all"][:, -1] for of in by_count.values())
        found[label] = lab.settled(list(by_count), deepest)
    return lab.exponent(found, 0.0, (("√h", 0.5),))


@CLAIM.ours("without the scale 1/√h of the scores they are 0 as well, from 12 layers on", REFUTED)
def early(lab: Lab) -> Finding:
    found = {label: lab.settled(lab.depths(), of["all"]) for label, of in unscaled(lab).items()}
    return lab.exponent(found, 0.0)


@CLAIM.stated(
    "without the scale they are 0 once query and key have become small, from 256 layers on",
    SUPPORTED,
)
def late(lab: Lab) -> Finding:
    return lab.exponent(deep(lab)["all"], 0.0, LINEAR)


@CLAIM.correction(
    "without the scale query's and key's share of the increment falls as N^{−1/2}", SUPPORTED
)
def falls(lab: Lab) -> Finding:
    return lab.exponent(deep(lab)["share"], -0.5, (("constant", 0.0),))


@CLAIM.correction(
    "without the scale their gradients are larger by a factor that is constant in depth", SUPPORTED
)
def kept(lab: Lab) -> Finding:
    at, base = lab.depths(), scaled(lab)
    ratios = {label: of["keys"] / base[label][1]["keys"] for label, of in unscaled(lab).items()}
    found = {label: lab.settled(at, ratio) for label, ratio in ratios.items()}
    return lab.exponent(found, 0.0, (("growing", 0.5),))


Parts = dict[str, Array]  # the increment, query's and key's share, ‖∂L/∂W_k‖


def conditions(lab: Lab) -> dict[str, tuple[Net, Settings]]:
    """Two rules and the data, one head."""
    found: dict[str, tuple[Net, Settings]] = {}
    for data in lab.pick(("gaussian:0",), ("text", "gaussian:0")):
        s = lab.settings(width=32, tokens=16, data=data, seeds=24, heads=1)
        found |= {f"{name}, {data}": (Net(*PUBLISHED[name], name), s) for name in ("sgd", "adam")}
    return found


@once
def scaled(lab: Lab) -> dict[str, dict[int, Parts]]:
    """By condition and number of heads."""
    counts = lab.pick((1, 8), (1, 8, 16))
    return {
        label: {h: parts(net, lab.depths(), replace(s, heads=h)) for h in counts}
        for label, (net, s) in conditions(lab).items()
    }


@once
def unscaled(lab: Lab) -> dict[str, Parts]:
    """One head without the scale, by condition."""
    every, at = conditions(lab).items(), lab.depths()
    return {label: parts(net, at, s, without_scale=True) for label, (net, s) in every}


@once
def deep(lab: Lab) -> dict[str, dict[str, Fit]]:
    """The exponents of deep stacks of one head without the scale."""
    found: dict[str, dict[str, Fit]] = {"all": {}, "share": {}}
    for label, (net, s) in conditions(lab).items():
        if net.optimizer == "adam" and not lab.full:
            continue  # its query and key are small from 12 layers on
        s = replace(s, seeds=lab.pick(8, 24))
        of = parts(net, DEEP, s, without_scale=True, at_once=4)
        for what, fits in found.items():
            fits[label] = lab.settled(DEEP, of[what])
    return found


def parts(
    net: Net, at: Sequence[int], s: Settings, without_scale: bool = False, at_once: int = 0
) -> Parts:
    """(seeds, depths) each; without the scale, the query is larger by √h, h a head's width."""
    increment: Callable[..., Tensor] = Pass.squared if net.optimizer == "sgd" else Pass.absolute
    quantities = {
        "all": increment,
        "scores": lambda p: increment(p, "query", "key"),
        "keys": lambda p: p.size("key"),
    }
    root = (s.width / s.heads) ** 0.5 if without_scale else 1.0
    larger = lambda d: root if d.name == "query" else 1.0  # noqa: E731
    found = many_per_depth(net, at, s, quantities, larger, at_once)
    return {**found, "share": found["scores"] / found["all"]}
