"""Validation loss against learning rate at several depths and widths, with the rule and without.

    python benchmarks/loss_by_rate.py [-o benchmarks/results/loss_by_rate.md]

Depths are runs of ``practice.py``, kept where it keeps them; widths are those of ``transfer``.
``docs/loss.py`` draws the README's figures from the page.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from arguments import output
from practice import GPT_2, PRE, Record

import deepnet_theory as dt
from deepnet_theory.processes.keep import default_folder

PAGE = Path(__file__).parent / "results" / "loss_by_rate.md"
SEED = 0
DEPTHS = (4, 16, 48)
ARMS = {
    "GPT-2's initialisation": (GPT_2, (1e-3, 2e-3, 4e-3, 8e-3, 16e-3)),
    "the recommended rule": (PRE, (1e-3, 2e-3, 4e-3, 8e-3, 16e-3, 32e-3, 64e-3)),
}
WIDTHS, LAYERS = (32, 64, 128), 8
RULES = {"sp": "standard parametrisation", "rule": "the rule over widths"}
HIGHEST = 3.45  # a loss above the unigram by as much is left out: the run has failed
COMMAND = (
    "deepnet-theory transfer --optimizer adam --placement pre-ln --widths 32,64,128 --steps 60 "
    "--seeds 4 --tokens 16 --batch 4 --depths 8 --rules rule,sp --rates 5e-4:1.28e-1:9"
)
TEXT = """\
# Loss against learning rate

Without the rule, the best learning rate falls with depth and width. Under the rule it stays, and the curves of all sizes coincide up
to the best rate. The tables have the validation loss in nats a byte, by learning rate.

Made by `python benchmarks/loss_by_rate.py`, drawn by `python docs/loss.py`.

## Depth

Pre-LN decoders of width 64 under AdamW with warm-up and cosine, 150 steps, one seed, the same at every point. The rule is the one
recommended for training (`complete`). A dash is a rate that was not run. [The page of the study](practice.md) has best rates of four
seeds, with intervals.

![Two panels of validation loss against learning rate. With GPT-2's initialisation deeper stacks end higher and need a smaller rate. Under the rule the curves of 4, 16 and 48 layers coincide.](../../docs/loss-by-depth.svg)

{depth}

## Width

Pre-LN encoders of {layers} layers under Adam, 60 steps, four seeds: standard parametrisation with one learning rate for all matrices,
and the rule over widths, relative to width 32. A dash is a loss above {highest}: the run has failed.

    {command}

![Two panels of validation loss against learning rate. In standard parametrisation the best rate falls as the width grows. Under the rule it stays.](../../docs/loss-by-width.svg)

{width}
"""  # noqa: E501


def table(
    size: str, rates: Sequence[float], rows: dict[tuple[str, int], dict[float, float]]
) -> str:
    """A row a rule and size, a column a rate."""

    def lines() -> Iterator[str]:
        yield f"| rule | {size} | " + " | ".join(f"{rate:g}" for rate in rates) + " |"
        yield "|---" * (2 + len(rates)) + "|"
        for (rule, count), losses in rows.items():
            cells = (
                f"{losses[r]:.3f}" if losses.get(r, math.inf) < HIGHEST else "–" for r in rates
            )
            yield f"| {rule} | {count} | " + " | ".join(cells) + " |"

    return "\n".join(lines())


def depths() -> str:
    """The runs of the study, and those of its arms that it lacks."""
    record, rows = Record((default_folder() or Path()) / "practice.jsonl", math.inf), {}
    for rule, (arm, rates) in ARMS.items():
        for depth in DEPTHS:
            at = replace(arm, depth=depth)
            for rate in rates:
                record.ensure(at, rate, SEED + 1)
            rows[rule, depth] = {rate: record.runs[at][rate][SEED].loss for rate in rates}
    return table("layers", sorted({r for _, rates in ARMS.values() for r in rates}), rows)


def widths() -> str:
    """Both parametrisations at every width."""
    found = dt.transfer(
        dt.derive("adam", placement="pre-ln"), [LAYERS], "5e-4:1.28e-1:9", widths=WIDTHS,
        rules=list(RULES), steps=60, seeds=4, tokens=16, batch=4, cache=True,
    )  # fmt: skip
    rows = {
        (RULES[c.closure], curve.depth["d"]): dict(zip(curve.rates, curve.losses, strict=True))
        for c in sorted(found.closures, key=lambda c: list(RULES).index(c.closure))
        for curve in c.curves
    }
    return table("wide", found.closures[0].curves[0].rates, rows)


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=output, default=PAGE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    page = TEXT.format(
        depth=depths(), width=widths(), layers=LAYERS, highest=HIGHEST, command=COMMAND
    )
    options.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
