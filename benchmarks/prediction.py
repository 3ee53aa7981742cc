"""‖ΔF‖/η predicted from single sublayers beside the measured one, over a grid of every axis.

    python benchmarks/prediction.py [--depths 8,32,128] [--seeds 8] [--draws 4] [--only NAME,…]
        [-o FILE.md]

Each row changes one thing of the base: text, width 64, ReLU, post-LN, every optimizer at every
depth. The other axes are at 16 layers, with half of the optimizers in turn. SGD and momentum, whose
sizes scatter more, take four times the draws. The table goes to standard output and to
``benchmarks/results/prediction.md``.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from arguments import depths, output, whole

from deepnet_theory.definitions.files import write_text
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.laboratory.model_update import measure_model_update
from deepnet_theory.laboratory.one_sublayer import predict_depth
from deepnet_theory.laboratory.settings import Settings
from deepnet_theory.laboratory.statistics import t_interval
from deepnet_theory.laboratory.trial import Case
from deepnet_theory.sizes.answer import Answer

HALVES = (("sgd", "adam", "muon"), ("momentum", "lamb", "lion"))
WITHIN = {"sgd": 0.03, "momentum": 0.03}  # what is aimed at; 5 % for all others
MORE = 4  # times the draws for these
DEEP, BESIDE = 1000, 16
RESULTS = Path(__file__).parent / "results" / "prediction.md"

Row = tuple[str, Selection, int, Settings]


def grid(base: Settings, layers: list[int]) -> Iterator[Row]:
    """What is measured: a name of what differs from the base, the selection, depth and settings."""
    every = [name for half in HALVES for name in half]
    for name in every:
        for depth in layers:
            yield "base", Selection(name), depth, base
    half = cycle(HALVES)
    for data in ("gaussian:0", "gaussian:0.5", "gaussian:0.9"):
        for name in next(half):
            yield data, Selection(name), BESIDE, replace(base, data=data)
    for width in (32, 128):
        for name in next(half):
            yield f"width {width}", Selection(name), BESIDE, replace(base, width=width)
    for name in next(half):
        yield "GELU", Selection(name), BESIDE, replace(base, activation="gelu")
    for name in next(half):
        yield "SwiGLU", Selection(name, layer="attention,ffn:swiglu"), BESIDE, base
    for placement in ("pre-ln", "res-post-ln", "sandwich-ln"):
        for name in next(half):
            yield placement, Selection(name, placement=placement), BESIDE, base
    for name in ("sgd", "adam", "lamb", "muon"):
        yield "width 256", Selection(name), BESIDE, replace(base, width=256)
    for name in ("adam", "sgd", "lamb", "muon"):
        yield "deep", Selection(name), DEEP, replace(base, seeds=4, draws=2)


def row(what: str, selection: Selection, depth: int, settings: Settings) -> str:
    """Measured, predicted and their ratio, as a line of the table."""
    if selection.optimizer in WITHIN and depth < DEEP:
        settings = replace(settings, draws=MORE * settings.draws)
    case = Case(
        selection, Answer(replace(selection, closure="published")).rule, {"N": depth}, settings
    )
    measured = np.array(measure_model_update(case, draws=settings.draws))
    found = predict_depth(case)["all"]
    logs = t_interval(np.log(measured / np.array(found.values)))
    ratio, least, most = map(float, np.exp(logs.numbers))
    name = str(selection.optimizer)
    within = WITHIN.get(name, 0.05)
    apart = most < 1 - within or least > 1 + within
    near = "yes" if max(1 - least, most - 1) <= within else "beyond" if apart else "open"
    low, high = found.interval_given_data
    return (
        f"| {what} | {name} | {depth} | {found.mean:.4g} [{low:.4g}, {high:.4g}] "
        f"| {measured.mean():.4g} | {ratio:.3f} [{least:.3f}, {most:.3f}] "
        f"| {within:.0%} | {near} |"
    )


def main() -> None:
    """Measure all rows and write the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depths", type=depths, default="8,32,128")
    parser.add_argument("--seeds", type=whole(2), default=8)
    parser.add_argument("--draws", type=whole(), default=4)
    parser.add_argument("--only", help="changes of the base, the rows to measure")
    parser.add_argument("-o", "--output", type=output, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    base = Settings(seeds=given.seeds, draws=given.draws, device="cpu")
    lines = [
        "# The size of one update: predicted from single sublayers, and measured", "",
        "`predict` computes ‖ΔF‖/η, the output change of one update divided by the learning rate, "
        "from two sampled layers. The table compares it with measurements on whole stacks. A ratio "
        "of 1 is a right prediction. *Aim* is the tolerance, and *within* says whether the whole "
        "interval of the ratio is inside (yes), outside (beyond), or neither (open).", "",
        "The ratio is measured / predicted, paired by seed. Its 95 % interval is over seeds, and "
        "includes the scatter of the measured stacks.", "",
        f"Set-up: every optimizer's own rule; base: {base.data}, width {base.width}, {base.tokens} "
        f"tokens, ReLU, post-LN; {MORE} times the draws for SGD and momentum; torch "
        f"{torch.__version__} on {platform.processor() or platform.machine()}, one thread. Made by "
        f"`python benchmarks/prediction.py --depths {given.depths} --seeds {given.seeds} "
        f"--draws {given.draws}`.", "",
        "| change of the base | optimizer | layers | predicted ‖ΔF‖/η | measured ‖ΔF‖/η | ratio "
        "| aim | within |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    print("\n".join(lines), flush=True)
    wanted = given.only.split(",") if given.only else None
    for one in grid(base, [int(n) for n in given.depths.split(",")]):
        if wanted is not None and one[0] not in wanted:
            continue
        lines.append(row(*one))
        print(lines[-1], flush=True)
        write_text(given.output, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
