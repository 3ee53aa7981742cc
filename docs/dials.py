"""Writes the last section of docs/dials.md: the powers of the batch that every optimizer takes.

    python docs/dials.py [--check]

``--check`` only says whether the page is current. Nothing in its tables is typed in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.selection import GRADIENT_NOISE, Selection
from deepnet_theory.sizes.batch import POWERS, batch_rule

PAGE = Path(__file__).parent / "dials.md"
HEADING = "## What each optimizer takes\n"
TEXT = """
The tables are made by `python docs/dials.py`, for the matrices of a layer. B is the new batch over
the old one. Each entry is a factor, and "-" stands where an optimizer has no such number. *Rate
with it*: where 1 − β takes its factor too, the learning rate takes this one. It differs where a sum
is not damped (torch's momentum) and where an update is taken of the average (Lion, LAMB, Muon). For
your own update: `derive --update "…" --across batch`. The best rate between the two tables:
`--curve`.
"""
REGIMES = {
    "dominant": "The batch is far below B_noise, so that noise dominates the gradient:",
    "none": "The batch is far above B_noise. Stability limits the rate, and more samples gain "
    "nothing:",
}
NAMES = ("learning rate", "weight decay", "coupled decay", "ε", "1 − β", "rate with it")


def section() -> str:
    """The heading, the text and a table for each regime."""
    return "\n".join(
        [HEADING + TEXT.rstrip(), *(line for n in GRADIENT_NOISE for line in table(n))]
    )


def table(noise: str) -> Iterator[str]:
    """Optimizers of the same powers in one row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in optimizers():
        row = batch_rule(Selection(optimizer=name, placement="pre-ln"), noise).row("fc1")
        sizes = tuple(getattr(row, power) for power in POWERS)
        cells = ("-" if s is None else str(s).replace("**", "^") for s in sizes)
        alike.setdefault(tuple(cells), []).append(name)
    yield from ("", REGIMES[noise], "", f"| optimizer | {' | '.join(NAMES)} |", "|---" * 7 + "|")
    for cells, names in alike.items():
        yield f"| {', '.join(names)} | {' | '.join(cells)} |"


def main() -> int:
    """Write the section, or say whether it is current."""
    old = PAGE.read_text(encoding="utf-8")
    new = f"{old.partition(HEADING)[0].rstrip()}\n\n{section()}\n"
    if "--check" in sys.argv[1:]:
        state = "current" if new == old else "stale: python docs/dials.py"
        print(f"docs/dials.md is {state}")
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
