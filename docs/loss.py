"""Draws the figures of loss against learning rate, with the rule and without.

    python docs/loss.py [--check]

The numbers are those of tables in ``benchmarks/results``.
"""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path

from deepnet_theory.report.document import Figure, Series
from deepnet_theory.report.figure import drawn

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
FIGURES = {  # of each file: a page, and the section whose table it shows
    "loss-by-depth.svg": ("loss_by_rate.md", "Depth"),
    "loss-by-width.svg": ("loss_by_rate.md", "Width"),
    "transfer.svg": ("transfer.md", "Adam, post-LN"),
}


def pictures() -> dict[str, str]:
    """The figures, by their files' names."""
    return {file: drawn(_figure(*place)).svg + "\n" for file, place in FIGURES.items()}


def _figure(page: str, title: str) -> Figure:
    """One panel a rule, one curve a size: the rows of the section's first table."""
    text = (RESULTS / page).read_text(encoding="utf-8")
    section = text.partition(f"\n## {title}\n")[2]
    table = re.findall(r"(?:^\| .*\n)(?:^\|.*\n)+", section, re.M)[0]
    head, _, *rows = (
        [c.strip() for c in line.strip("|").split("|")] for line in table.split("\n")[:-1]
    )
    panels = []
    for rule, own in groupby(rows, key=lambda row: row[0]):
        sizes = list(own)
        curves = tuple(
            Series(
                f"{row[1]} {head[1]}",
                line=_points(head, row),
                shade=i / (len(sizes) - 1),
                measured=True,
            )
            for i, row in enumerate(sizes)
        )
        panels.append((rule, curves))
    return Figure(tuple(panels), "learning rate", "validation loss, nats a byte", linear=True)


def _points(head: list[str], row: list[str]) -> tuple[tuple[float, float], ...]:
    """The rates that were run: a dash is a rate that was not run."""
    rates = ((name, loss) for name, loss in zip(head, row, strict=True) if name[:1].isdigit())
    return tuple((float(rate), float(loss)) for rate, loss in rates if loss != "–")


def main() -> int:
    """Write the figures, or say whether they are current."""
    stale = 0
    for name, picture in pictures().items():
        file = DOCS / name
        current = file.exists() and file.read_text(encoding="utf-8") == picture
        stale += not current
        if "--check" not in sys.argv[1:]:
            file.write_text(picture, encoding="utf-8")
    return int(stale > 0 and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
