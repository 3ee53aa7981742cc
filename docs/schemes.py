"""Writes docs/schemes.md: which optimizers each published scheme is balanced for, and the rest.

    python docs/schemes.py [--check]

``--check`` only says whether the page is current. Nothing in it is typed in.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.definitions.scheme import SCHEMES
from deepnet_theory.report.tables import power
from deepnet_theory.sizes.exponents import Judgement, judge
from deepnet_theory.sizes.layers import STEPPED, Layers

sys.path.insert(0, str(Path(__file__).parents[1]))
from paper_checks.shared.measured import conditions, recorded

PAGE = Path(__file__).parent / "schemes.md"
HEAD = """\
# Published schemes

Most published schemes are balanced under one optimizer only. The table says what each scheme does
under SGD, Adam and LAMB, and what still grows with depth. `deepnet-theory derive --scheme NAME`
prints one scheme; `python docs/schemes.py` makes this page.

- **SGD, Adam, LAMB**: how the output change of one update scales with depth, to first order, if the
  matrices are trained with that optimizer. SGD includes momentum. Adam
  includes all updates that do not depend on the gradient's size. LAMB includes all that scale with
  the weight's size. *Constant* is balanced.
- **Measured**: the exponent at {conditions}, with its 95 % interval and the
  verdict on the derived exponent ([all measurements](../benchmarks/results/schemes.md)).
- **ρ**: the update of a scaled matrix divided by the matrix, under the optimizer of the scheme's
  author. If ρ grows with depth, one learning rate cannot work at every depth. If ρ falls, deep
  stacks change little in each matrix.
- **Still grows**: the largest growth that remains under that optimizer.

Exponents are those of great depth. In a growing stream, sums over layers are logarithms and tokens
become alike, so the slope at measurable depths differs. The page of measurements has predictions
for these depths ([why](decisions/blocks-of-a-growing-stream.md)). An encoder–decoder scheme has two
rows, each for its own output.

"""


def page() -> str:
    """The whole page."""
    judged, refused = [], []
    for scheme in SCHEMES.values():
        try:
            judged.append(judge(scheme))
        except Refusal as refusal:
            refused.append(f"- **{scheme.name}** ({scheme.source}): {refusal}.")
    lines = [
        "| scheme | equation | SGD | Adam | LAMB | author's optimizer | ρ | still grows |",
        "|---" * 8 + "|",
        *(line for one in judged for line in _lines(one)),
        *(["", "## Refused", "", *refused] if refused else ()),
    ]
    return HEAD.format(conditions=conditions()) + "\n".join(lines) + "\n"


def _lines(one: Judgement) -> list[str]:
    under = {name: judge(one.scheme, optimizer(name)).parts for name in ("sgd", "adam", "lamb")}
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
    """The derived exponent of the first order, and the measured one."""
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
    """The largest growth in the parameters of the scheme, and in the others."""
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
