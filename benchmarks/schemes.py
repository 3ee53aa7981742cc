"""Measured beside predicted exponents of the published schemes that can be built.

    python benchmarks/schemes.py [NAME …] [-o benchmarks/results/schemes.md]

Depths 16 to 128, width 32, 8 seeds, on text: about half an hour on one core; of schemes that are
named, theirs alone, beside what is recorded of the others. The numbers go to
``paper_checks/schemes/measured.jsonl``, which ``docs/schemes.md`` shows beside what is derived; the
page is made of that file.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from deepnet_theory.cli.experiments import verify
from deepnet_theory.definitions.measurement import Exponent, Result
from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.scheme import SCHEMES, measurable, scheme

sys.path.insert(0, str(Path(__file__).parents[1]))
from paper_checks.shared.measured import Found, Slope, recorded, write

DEPTHS = (16, 32, 64, 128)
TWO_PARTS = ("16x8", "32x8", "64x8", "128x8", "8x16", "8x32", "8x64")
OPTIMIZERS = ("sgd", "adam", "lamb")
SIZES = {"width": 32, "heads": 2, "tokens": 16, "seeds": 8}
HEAD = f"""\
# Published schemes, measured

The table shows how the output change of one update scales with depth under each published scheme.
A cell is the exponent in depth of ‖ΔF‖/η: derived by `derive --scheme` for great depth, measured
with its 95 % interval, and the verdict on the derived exponent. *Here* is the exponent that
single sublayers predict for the measured depths. 0 is balanced.

Set-up: one step of the matrices at {", ".join(map(str, DEPTHS))} layers, width 32, 8 seeds, text.
An encoder–decoder scheme has the encoder's exponent in N first, then the decoder's in M, at
{", ".join(TWO_PARTS)} layers. Made by `python benchmarks/schemes.py`.

| scheme | {" | ".join(OPTIMIZERS)} |
|---|---|---|---|
"""


def measured(name: str) -> dict[str, tuple[Slope, ...]]:
    """A scheme under every optimizer."""
    depths = TWO_PARTS if len(scheme(name).parts) > 1 else DEPTHS
    return {
        optimizer: tuple(map(taken, judged(verify(optimizer, depths, scheme=name, **SIZES))))
        for optimizer in OPTIMIZERS
    }


def judged(found: Result) -> list[Exponent]:
    """The exponents that have a prediction: one for each stack."""
    return [e for e in found.exponents if e.predicted is not None]


def taken(e: Exponent) -> Slope:
    """What is kept of an exponent, to four digits."""
    numbers = {name: getattr(e, name) for name in ("here", "estimate", "low", "high")}
    kept = {
        name: None if value is None or math.isnan(value) else round(value, 4)
        for name, value in numbers.items()
    }
    predicted = Fraction(e.predicted or 0).limit_denominator(60)
    because = "" if e.verdict is Verdict.SUPPORTED else e.because
    return Slope(
        depth=e.variable, predicted=str(predicted), **kept, verdict=e.verdict.value, because=because
    )


def row(name: str, found: Mapping[str, Sequence[Slope]]) -> str:
    """What was predicted, measured and found of a scheme, a cell an optimizer."""
    cells = ("; ".join(map(cell, one)) for one in found.values())
    return f"| {name} | {' | '.join(cells)} |"


def cell(found: Slope) -> str:
    """Predicted deep down, measured, verdict; and what is predicted of these depths."""
    reached = found.here is not None and found.estimate is not None
    here = f" (here {found.here:+.2f})" if reached else ""
    return f"{found.predicted}{here}: {found}"


def why(name: str, found: Mapping[str, Sequence[Slope]]) -> list[str]:
    """What keeps a cell from SUPPORTED, as the verification tells it."""
    return [
        f"- {name}, {optimizer}: {one.because}"
        for optimizer, own in found.items()
        for one in own
        if one.because
    ]


def page(found: Found) -> str:
    """The whole page."""
    rows = [row(name, own) for name, own in found.items()]
    reasons = [line for name, own in found.items() for line in why(name, own)]
    lacking = [f"- {name}: {refusal}" for name in SCHEMES if (refusal := _refused(name))]
    parts = (rows, ["", "## Not SUPPORTED", ""], reasons, ["", "## Not measured", ""], lacking)
    return HEAD + "\n".join(line for part in parts for line in part) + "\n"


def _refused(name: str) -> Refusal | None:
    """Why a scheme cannot be measured."""
    try:
        measurable(scheme(name), None, None)
    except Refusal as refusal:
        return refusal
    return None


def main() -> None:
    """Measure every scheme that can be built, or those named, and write numbers and table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", type=scheme, metavar="NAME")
    parser.add_argument("-o", default=str(Path(__file__).parent / "results" / "schemes.md"))
    given = parser.parse_args()
    path, known = Path(given.o), recorded() if given.names else {}
    wanted = [one.name for one in given.names] or list(SCHEMES)
    found: dict[str, Mapping[str, Sequence[Slope]]] = {}
    for name in SCHEMES:
        if name in wanted and _refused(name) is None:
            found[name] = measured(name)
            print(row(name, found[name]), flush=True)
        elif name in known:
            found[name] = known[name]
    write(found, {"depths": DEPTHS, "two_parts": TWO_PARTS, **SIZES, "data": "text"})
    path.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
