"""Writes docs/width.md: how numbers change with the width under every optimizer.

    python docs/width.py [--check]

``--check`` only says whether the page is current. Nothing in its tables is typed in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from deepnet_theory.definitions.optimizer import OPTIMIZERS
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.selection import ALIGNMENTS, Selection
from deepnet_theory.sizes.width import RoleTable, role_table

PAGE = Path(__file__).parent / "width.md"
FULL, NONE = ALIGNMENTS
LAYER = "attention,ffn:swiglu"
HEAD = """\
# Width

The tables say how to change the numbers of a tuned model when its width d changes. Each entry is a
power of d. From width d₀ to d, multiply your tuned number by that power of d/d₀: at 1/d and twice
the width, by 1/2. `deepnet-theory derive --across width` prints the same for one optimizer.
`python docs/width.py` makes this page.

**Conditions.** Every activation has order one at the start (F). One update changes the output of
every role by order one (U). A change of the features of order one changes the logits by order one
(H).

**Alignment** says how the d terms of ΔW·x and W·Δx add up: as d (*full*), or as √d (*none*). The
multiplier on the head is 1/d at full alignment and d^(-1/2) at none, and the head's entries have
size 1. W = c·W′ in any role is the same model at another rate.

**"-"** means that the update has no law for the role. An example is a parameter that starts at 0
under an update that scales with the parameter's size: a library then takes another step.

**Rank** matters for updates with polar(g). The tables are for few tokens a batch (`--rank low`).
With as many tokens as the width (`--rank full`), `polar(g)/rms(polar(g))` needs d^(-1/2) on hidden
matrices instead of 1/d, and Muon at no alignment needs 1 instead of d^(1/2). Embeddings are counted
as torch stores them: rows(theta) is the number of tokens, columns(theta) the width.

**Vocabulary.** The tables are for a width that is larger than the vocabulary. Where it is smaller,
head and token-embedding have other learning rates under {vocabulary}. `derive --across width`
prints these, and `export` over a base takes them from both sizes.

"""
DISAGREE = """\
## Where sources disagree

**LAMB on hidden matrices.** Gupta et al., arXiv 2602.20937, keep its rate at every width. This is
right at no alignment only. LAMB's update is ‖θ‖·sign(g)/√numel, with entries of the weight's own
size d^(-1/2), all aligned with the input. The conditions give {lamb_full} at full alignment and
{lamb_none} at none. The conditions of Everett et al., arXiv 2407.05872, for an update scaled
by its parameter give the same two. *Do*: multiply LAMB's hidden rate by {lamb_full} if updates are
aligned.

**Rates of embeddings.** u-μP and nanochat multiply the embedding's rate by d^(-1/2). The conditions
give 1. The smaller rate makes the embedding learn more slowly at larger widths.
"""


def page() -> str:
    """The whole page."""
    tables = {
        alignment: {name: _table(name, alignment) for name in OPTIMIZERS}
        for alignment in ALIGNMENTS
    }
    lamb = {a: tables[a]["lamb"].row("query").rate for a in ALIGNMENTS}  # type: ignore[union-attr]
    lines = [
        "## Learning rates",
        "",
        *(line for a in ALIGNMENTS for line in _rates(tables[a], a)),
        "## Epsilon and decoupled weight decay, full alignment",
        "",
        "Powers of d: ε first, decoupled weight decay second.",
        "",
        *_beside(tables[FULL]),
        DISAGREE.format(
            lamb_full=_text(lamb[FULL]),
            lamb_none=_text(lamb[NONE]),
        ),
    ]
    by_size = [n for n, t in tables[FULL].items() if t and "Up to there" in " ".join(t.conventions)]
    return HEAD.format(vocabulary=", ".join(by_size)) + "\n".join(lines)


def _table(name: str, alignment: str) -> RoleTable | None:
    try:
        return role_table(
            Selection(optimizer=name, placement="pre-ln", layer=LAYER), alignment=alignment
        )
    except Refusal:
        return None


def _rows(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """A Markdown table, and a line behind it."""
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    yield from (f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)
    yield ""


def _columns(tables: dict[str, RoleTable | None], *quantities: str) -> dict[tuple, list[str]]:
    """The roles with equal entries under every optimizer, by these entries."""
    found: dict[tuple, list[str]] = {}
    for role in _roles(tables):
        rows = [None if t is None else t.row(role) for t in tables.values()]
        told = tuple(tuple(_text(getattr(row, q, None)) for q in quantities) for row in rows)
        found.setdefault(told, []).append(role)
    return found


def _roles(tables: dict[str, RoleTable | None]) -> list[str]:
    rows = next(t for t in tables.values() if t is not None).rows
    return list(dict.fromkeys(row.role for row in rows if row.role != "key-bias"))


def _text(size: object) -> str:
    return "-" if size is None else str(size).replace("**", "^")


def _rates(tables: dict[str, RoleTable | None], alignment: str) -> Iterator[str]:
    columns = _columns(tables, "rate")
    yield f"Powers of d at {alignment.replace('none', 'no')} alignment:"
    yield ""
    head = ["optimizer", *(", ".join(roles) for roles in columns.values())]
    rows = ([name, *(told[i][0] for told in columns)] for i, name in enumerate(tables))
    yield from _rows(head, rows)


def _beside(tables: dict[str, RoleTable | None]) -> Iterator[str]:
    columns = _columns(tables, "epsilon", "decay")
    head = ["optimizer", *(", ".join(roles) for roles in columns.values())]
    rows = ([name, *("; ".join(told[i]) for told in columns)] for i, name in enumerate(tables))
    yield from _rows(head, rows)


def main() -> int:
    """Write the page, or say whether it is current."""
    new = page()
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" in sys.argv[1:]:
        state = "current" if new == old else "stale: python docs/width.py"
        print(f"docs/width.md is {state}")
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
