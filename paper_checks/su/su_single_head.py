"""One head and no 1/√d scale suffice for the analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnet_theory.spec.claim import Claim, Context, Finding, Ruling
from deepnet_theory.spec.verdict import Verdict
from paper_checks.shared.sources import SU
from paper_checks.shared.verdicts import worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from torch import Tensor

    from paper_checks.shared.laboratory import Settings
    from paper_checks.shared.stacks import Net

HEADS, SIZE, EARLY, SCALE, FALLS, KEPT = (
    "the increments' exponents in depth are 0 with 1 head as with 8",
    "the number of heads does not change the increments",
    "without the scale 1/√h of the scores they are 0 as well, from 12 layers on",
    "without the scale they are 0 once query and key have become small, from 256 layers on",
    "without the scale query's and key's share of the increment falls as N^{−1/2}",
    "without the scale their gradients are larger by a factor that is constant in depth",
)
DATA = ("text", "gaussian:0")


def check(context: Context) -> tuple[Finding, ...]:
    """Exponents under two rules with heads and scale varied; scale is removed from the query."""
    from dataclasses import replace

    import numpy as np

    from paper_checks.shared.rules import PUBLISHED
    from paper_checks.shared.stacks import Net, depths, exponent, on_the_exponent, settings

    at, deep = depths(context), (256, 512, 1024)
    counts = context.pick((1, 8), (1, 8, 16))
    heads, size, early, late, falls, kept = [], [], [], [], [], []
    for name in ("sgd", "adam"):
        net = Net(*PUBLISHED[name], name)
        for data in context.pick(DATA[1:], DATA):
            s = settings(context, width=32, tokens=16, data=data, seeds=24)
            tag = f"{name}, {data}"
            lots = 2 if name == "sgd" else 1
            found = {h: _parts(net, at, replace(s, heads=h), lots) for h in counts}
            heads += [exponent(f"{tag}, {h} heads", at, v["all"]) for h, v in found.items()]
            by_heads = np.stack([v["all"][:, -1] for v in found.values()], axis=1)
            size.append(exponent(tag, counts, by_heads))
            alone = replace(s, heads=1)
            without = _parts(net, at, alone, lots, scaled=False)
            early.append(exponent(f"{tag}, 1 head", at, without["all"]))
            kept.append(exponent(tag, at, without["keys"] / found[1]["keys"]))
            if name == "adam" and not context.full:
                continue  # its query and key are small from 12 layers on
            without = _parts(net, deep, replace(alone, seeds=8), 2, scaled=False)
            late.append(exponent(f"{tag}, 1 head", deep, without["all"]))
            falls.append(exponent(tag, deep, without["share"]))
    return (
        on_the_exponent(HEADS, heads, 0.0, [("linear growth", 1.0)], seed=context.seed),
        on_the_exponent(SIZE, size, 0.0, [("√h", 0.5)]),
        on_the_exponent(EARLY, early, 0.0),
        on_the_exponent(SCALE, late, 0.0, [("linear growth", 1.0)]),
        on_the_exponent(FALLS, falls, -0.5, [("constant", 0.0)]),
        worst(on_the_exponent(KEPT, [e], 0.0, [("growing", 0.5)]) for e in kept),
    )


def _parts(
    net: Net, at: Sequence[int], s: Settings, lots: int, scaled: bool = True
) -> dict[str, np.ndarray]:
    """The increment, query's and key's share of it, and ‖∂L/∂W_k‖: (seeds, depths) each.

    Without the scale, the query is larger by the root of the head's width. Lots of seeds are
    measured one after another, which takes a part of the memory.
    """
    from dataclasses import replace

    import numpy as np
    import torch

    found = []
    for lot in range(lots):
        columns = [_at(net, depth, replace(s, seed=s.seed + lot), scaled) for depth in at]
        found.append(torch.stack(columns, dim=2).double().numpy())
    return dict(zip(("all", "share", "keys"), np.concatenate(found, axis=1), strict=True))


def _at(net: Net, depth: int, s: Settings, scaled: bool) -> Tensor:
    """The three at one depth: (3, seeds)."""
    import torch

    from paper_checks.shared.stacks import backward

    root = 1.0 if scaled else (s.width / s.heads) ** 0.5
    p = backward(net.trial(depth, s, lambda d: root if d.name == "query" else 1.0))

    def increment(*names: str) -> Tensor:
        if net.optimizer == "sgd":
            return sum(g.norm().double() ** 2 for g in p.of(*names))
        return sum(g.g.double().abs().flatten(1).sum(1) for g in p.of(*names))

    small, large = increment("query", "key"), increment("value", "output", "fc1", "fc2")
    keys = sum(g.norm().double() ** 2 for g in p.of("key")).sqrt()
    return torch.stack([small + large, small / (small + large), keys])


CLAIM = Claim(
    name="su-single-head",
    source=f"{SU}, §Self-attention, above the first equation",
    statement="For an analysis of orders a single head suffices, and the scale of the "
    "attention scores can be left out.",
    conditions="post-LN encoder under SGD's and Adam's rules, 1 to 16 heads, width 32, 12 to 1024 "
    "layers, text and independent tokens; increments ‖∇L‖² and ‖∇L‖₁",
    recorded=(
        Ruling(HEADS, Verdict.SUPPORTED),
        Ruling(SIZE, Verdict.SUPPORTED),
        Ruling(EARLY, Verdict.REFUTED),
        Ruling(SCALE, Verdict.SUPPORTED, corrected=True),
        Ruling(FALLS, Verdict.SUPPORTED, corrected=True),
        Ruling(KEPT, Verdict.SUPPORTED, corrected=True),
    ),
    finding=(
        "One head is enough: with 1, 8 and 16 heads the increments agree within 1 % and their "
        "exponents between 16 and 144 layers are −0.00 to −0.02 under SGD's and Adam's rules. The "
        "scale is not free at once: without 1/√h query and key have a share of the increment that "
        "dies out only as N^{−1/2}, and SGD's exponent is −0.09 ± 0.01 for independent tokens "
        "from 16 layers on (−0.04 on text, Adam's −0.01 to −0.02), −0.02 to −0.03 from 256."
    ),
    counterexample=(
        "Width 32, one head, independent tokens, SGD's rule without the scale: ‖∇L‖² is 0.422, "
        "0.376 and 0.346 at 16, 48 and 144 layers; with it 0.205, 0.202 and 0.199."
    ),
    corrected=(
        "Without the scale the increments are constant once query's and key's share, which falls "
        "as N^{−1/2}, is small: from 256 layers on at head width 32."
    ),
    check=check,
    seconds=20,
    full_seconds=76,
)
