"""Draws the first figures of the README: loss against learning rate, with the rule and without.

    python docs/loss.py [--check]

The numbers are the tables of ``benchmarks/results/loss_by_rate.md``.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from deepnet_theory.report.document import Curve, Panels
from deepnet_theory.report.svg import panels

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "benchmarks" / "results" / "loss_by_rate.md"
FIGURES = {"Depth": "loss-by-depth.svg", "Width": "loss-by-width.svg"}


def pictures(page: str) -> dict[str, str]:
    """The figures of a page, by their files' names."""
    sections = page.split("\n## ")[1:]
    named = {section.partition("\n")[0]: section for section in sections}
    return {file: panels(_figure(named[title])).svg + "\n" for title, file in FIGURES.items()}


def _figure(section: str) -> Panels:
    """One panel a rule, one curve a size: the rows of the section's table."""
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    (_, size, *rates), *rows = (line.strip("| ").split(" | ") for line in lines)
    drawn = []
    for rule, own in groupby(rows, key=lambda row: row[0]):
        sizes = list(own)
        curves = tuple(
            Curve(f"{row[1]} {size}", _points(rates, row[2:]), (i + 1) / len(sizes))
            for i, row in enumerate(sizes)
        )
        drawn.append((rule, curves))
    return Panels(tuple(drawn), "learning rate", "held-out loss, nats a byte", None)


def _points(rates: list[str], losses: list[str]) -> tuple[tuple[float, float], ...]:
    """What was run: a dash stands for a rate that was not."""
    pairs = zip(rates, losses, strict=True)
    return tuple((float(rate), float(loss)) for rate, loss in pairs if loss != "–")


def main() -> int:
    """Write the figures, or say whether they are current."""
    stale = 0
    for name, drawn in pictures(PAGE.read_text(encoding="utf-8")).items():
        file = ROOT / "docs" / name
        current = file.exists() and file.read_text(encoding="utf-8") == drawn
        stale += not current
        if "--check" not in sys.argv[1:]:
            file.write_text(drawn, encoding="utf-8")
    return int(stale > 0 and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
