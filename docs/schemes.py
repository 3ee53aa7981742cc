"""Writes docs/schemes.md: what each published scheme balances, with what optimizer, and leaves.

    python docs/schemes.py [--check]

``--check`` only says whether the page is current. Nothing in it is typed in.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.scheme import schemes
from deepnet_theory.report.tables import power
from deepnet_theory.sizes.exponents import Judgement, judge, trials
from deepnet_theory.sizes.layers import STEPPED, Layers

sys.path.insert(0, str(Path(__file__).parents[1]))
from paper_checks.shared.measured import conditions, recorded

PAGE = Path(__file__).parent / "schemes.md"
HEAD = """\
# Published schemes

`deepnet-theory derive --scheme NAME` for every scheme of `definitions/schemes`, in one table, made
by
`python docs/schemes.py`. *First order*: how the change of the output by one update
of the matrices (and of a learnt scalar) scales with depth, under SGD (and momentum), Adam (and all
updates that do not feel the gradient's size), and LAMB (and all that scale with the weight's size).
*ρ*: the relative update of the scaled matrices under the scheme's own optimizer: where it grows,
one learning rate does not serve all depths; where it falls, deep stacks learn little in each
matrix. *Leaves*: what grows under the own optimizer. Exponents are those of great depth. Where the
stream grows, sums over its layers are logarithms and tokens become alike on the way, so that the
slope over measurable depths is another one, which single sublayers predict
([why](decisions/blocks-of-a-growing-stream.md)). *Measured* is the exponent at
{conditions}, with its 95 % interval and the verdict on the
derived one ([all of it](../benchmarks/results/schemes.md)). A scheme of two parts is judged part by
part, each at its own output.

"""


def page() -> str:
    """The whole page."""
    judged, refused = [], []
    for scheme in schemes().values():
        try:
            judged.append(judge(scheme))
        except Refusal as refusal:
            refused.append(f"- **{scheme.name}** ({scheme.source}): {refusal}.")
    lines = [
        "| scheme | equation | SGD | Adam | LAMB | own optimizer | ρ | leaves |",
        "|---" * 8 + "|",
        *(line for one in judged for line in _lines(one)),
        *(["", "## Refused", "", *refused] if refused else ()),
    ]
    return HEAD.format(conditions=conditions()) + "\n".join(lines) + "\n"


def _lines(one: Judgement) -> list[str]:
    under = {name: trials(one.scheme, optimizer(name)) for name in ("sgd", "adam", "lamb")}
    found = []
    for index, part in enumerate(one.parts):
        several = len(one.parts) > 1
        cells = [
            f"{one.scheme.name}{f', {part.part}' if several else ''}",
            f"`{one.scheme.equation}`",
            *(_first(one, name, parts[index].first, index, part) for name, parts in under.items()),
            one.scheme.optimizer,
            _power(part.relative, part),
            _leaves(part),
        ]
        found.append(f"| {' | '.join(cells)} |")
    return found


def _first(one: Judgement, under: str, exponent: Fraction, index: int, part: Layers) -> str:
    """What is derived of the first order, and what was measured of it."""
    found = recorded().get(one.scheme.name, {}).get(under)
    if not found:
        return _power(exponent, part)
    refuted = found[index].verdict == Verdict.REFUTED.value
    told = power(exponent, part.depth) if refuted else _power(exponent, part)
    return f"{told}; measured {found[index]}"


def _power(exponent: Fraction | None, part: Layers) -> str:
    told = "—" if exponent is None else power(exponent, part.depth)
    return f"**{told}**" if exponent == 0 else told


def _leaves(part: Layers) -> str:
    """The largest growth of what the scheme speaks of, and of the other parameters."""
    own = [m for m in part.growing if m.role in STEPPED["matrices"]]
    others = [m for m in part.growing if m.role not in STEPPED["matrices"]]
    told = []
    if part.independent is not None and part.independent > 0:
        told.append(f"S·r² {power(part.independent, part.depth)}, beyond the premises")
    if part.grown > 0:
        told.append(f"stream {power(part.grown, part.depth)}")
    for label, of in (("", own), ("vectors ", others)):
        if of:
            most = max(m.total for m in of)
            names = dict.fromkeys(m.name for m in of if m.total == most)
            shown = label or f"{', '.join(names)} "
            told.append(f"{shown}{power(most, part.depth)}")
    return "; ".join(told)


def main() -> int:
    """Write the page, or say whether it is current."""
    new = page()
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" in sys.argv[1:]:
        state = "current" if new == old else "stale: python docs/schemes.py"
        print(f"docs/schemes.md is {state}")
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
