"""Measured beside predicted exponents of the published schemes that can be built.

    python benchmarks/schemes.py [-o benchmarks/results/schemes.md]

Depths 16 to 128, width 32, 8 seeds, on text: about four minutes on one core.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path

import deepnet_theory.workflow as workflow
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.scheme import schemes
from deepnet_theory.spec.verification import Verification

DEPTHS = (16, 32, 64, 128)
OPTIMIZERS = ("sgd", "adam", "lamb")
HEAD = f"""\
# Published schemes, measured

The exponent in depth of ‖ΔF‖/η after one step of the matrices, predicted by
`derive --scheme` and measured (95 % interval over 8 seeds), at
{", ".join(map(str, DEPTHS))} layers, width 32, on text. Made by `python benchmarks/schemes.py`.

| scheme | {" | ".join(OPTIMIZERS)} |
|---|---|---|---|
"""


def row(name: str) -> str:
    """A scheme under every optimizer."""
    cells = []
    for optimizer in OPTIMIZERS:
        found = workflow.verify_scheme(
            name, DEPTHS, optimizer=optimizer, width=32, heads=2, tokens=16, seeds=8
        )
        cells.append(cell(found))
    return f"| {name} | {' | '.join(cells)} |"


def cell(found: Verification) -> str:
    """Predicted, measured, verdict."""
    exponent = found.exponents[0]
    predicted = "no prediction" if exponent.predicted is None else Fraction(exponent.predicted)
    interval = f"{exponent.estimate:+.2f} [{exponent.low:+.2f}, {exponent.high:+.2f}]"
    return f"{predicted}: {interval} {exponent.verdict.value}"


def main() -> None:
    """Measure every scheme that can be built, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", default=str(Path(__file__).parent / "results" / "schemes.md"))
    path = Path(parser.parse_args().o)
    rows, lacking = [], []
    for name in schemes():
        try:
            rows.append(row(name))
        except Refusal as refusal:
            lacking.append(f"- {name}: {refusal}")
        else:
            print(rows[-1], flush=True)
    text = HEAD + "\n".join(rows) + "\n\nNot measured:\n\n" + "\n".join(lacking) + "\n"
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
