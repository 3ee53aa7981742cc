"""Measured beside predicted exponents of the published schemes that can be built.

    python benchmarks/schemes.py [-o benchmarks/results/schemes.md]

Depths 16 to 128, width 32, 8 seeds, on text: about half an hour on one core.
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from pathlib import Path

import deepnet_theory.workflow as workflow
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.results.verification import Exponent, Verification
from deepnet_theory.spec.scheme import scheme, schemes
from deepnet_theory.spec.verdict import Verdict

DEPTHS = (16, 32, 64, 128)
TWO_PARTS = ("16x8", "32x8", "64x8", "128x8", "8x16", "8x32", "8x64")
OPTIMIZERS = ("sgd", "adam", "lamb")
HEAD = f"""\
# Published schemes, measured

The exponent in depth of ‖ΔF‖/η after one step of the matrices, predicted by
`derive --scheme` for great depth, predicted from single sublayers over the depths measured
("here", where they reach), and measured (95 % interval over 8 seeds), at
{", ".join(map(str, DEPTHS))} layers, width 32, on text. Made by `python benchmarks/schemes.py`.
A scheme of two parts has the encoder's exponent in N first, the decoder's in M second, at
{", ".join(TWO_PARTS)} layers.

| scheme | {" | ".join(OPTIMIZERS)} |
|---|---|---|---|
"""


def measured(name: str) -> dict[str, Verification]:
    """A scheme under every optimizer."""
    depths = TWO_PARTS if len(scheme(name).parts) > 1 else DEPTHS
    return {
        optimizer: workflow.verify_scheme(
            name, depths, optimizer=optimizer, width=32, heads=2, tokens=16, seeds=8
        )
        for optimizer in OPTIMIZERS
    }


def row(name: str, found: dict[str, Verification]) -> str:
    """What was predicted, measured and found of a scheme, a cell an optimizer."""
    cells = ("; ".join(map(cell, judged(one))) for one in found.values())
    return f"| {name} | {' | '.join(cells)} |"


def judged(found: Verification) -> list[Exponent]:
    """The exponents of which something is predicted: one, or one a part."""
    return [e for e in found.exponents if e.predicted is not None]


def cell(exponent: Exponent) -> str:
    """Predicted deep down, measured, verdict; and what is predicted of these depths."""
    predicted = Fraction(exponent.predicted or 0).limit_denominator(60)
    if math.isnan(exponent.estimate):
        return f"{predicted}: no exponent, {exponent.verdict.value}"
    interval = f"{exponent.estimate:+.2f} [{exponent.low:+.2f}, {exponent.high:+.2f}]"
    here = "" if exponent.here is None else f" (here {exponent.here:+.2f})"
    return f"{predicted}{here}: {interval} {exponent.verdict.value}"


def why(name: str, found: dict[str, Verification]) -> list[str]:
    """What keeps a cell from SUPPORTED, as the verification tells it."""
    return [
        f"- {name}, {optimizer}: {e.because}"
        for optimizer, one in found.items()
        for e in judged(one)
        if e.verdict is not Verdict.SUPPORTED
    ]


def page(rows: list[str], reasons: list[str], lacking: list[str]) -> str:
    """The whole page."""
    parts = (rows, ["", "Not SUPPORTED:", ""], reasons, ["", "Not measured:", ""], lacking)
    return HEAD + "\n".join(line for part in parts for line in part) + "\n"


def main() -> None:
    """Measure every scheme that can be built, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", default=str(Path(__file__).parent / "results" / "schemes.md"))
    path = Path(parser.parse_args().o)
    rows, reasons, lacking = [], [], []
    for name in schemes():
        try:
            found = measured(name)
        except Refusal as refusal:
            lacking.append(f"- {name}: {refusal}")
            continue
        rows.append(row(name, found))
        reasons += why(name, found)
        print(rows[-1], flush=True)
    path.write_text(page(rows, reasons, lacking), encoding="utf-8")


if __name__ == "__main__":
    main()
