"""Writes docs/width.md: what every optimizer asks of the width, and what is published for it.

    python docs/width.py [--check]

``--check`` only says whether the page is current. Nothing in its tables is typed in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.parametrisation import parametrisations
from deepnet_theory.definitions.selection import ALIGNMENTS, Selection
from deepnet_theory.sizes.parametrisations import (
    Cell,
    WidthJudgement,
    judge_parametrisation,
    size,
)
from deepnet_theory.sizes.width import WidthTable, width_table

PAGE = Path(__file__).parent / "width.md"
FULL, NONE = ALIGNMENTS
LAYER = "attention,ffn:swiglu"
HEAD = """\
# Width

What `deepnet-theory derive --across width` and `derive --scheme NAME --across width` say, in
tables; the page is made by `python docs/width.py`. Every entry is a power of the width d: what is
tuned at one width serves another where it is multiplied so.

The conditions: every activation is of order one at the start (F); one update moves the output of
every role by order one (U); a move of the features of order one moves the logits by order one (H).
*Alignment* full: the terms of ΔW·x and W·Δx add up; none: they add as their root. The multiplier
on the head is 1/d at full alignment and d^(-1/2) at none, its entries are of size 1; W = c·W′ in
any role is the same model at another rate. A cell is "-" where an update has no law there, as for a
parameter that starts at 0 under an update that scales with its size: there the library's own step
is another expression.

"""
DISAGREE = """\
## Where sources disagree

**LAMB on hidden matrices.** Gupta et al., arXiv 2602.20937, leave its rate as it is. Its update is
‖θ‖·sign(g)/√numel, entries of the weight's own size d^(-1/2), all aligned with the input: the
conditions give {lamb_full} at full alignment and {lamb_none} at none. The conditions of Everett et
al., arXiv 2407.05872, for an update scaled by its parameter give the same two. The published rate
is that of no alignment.

**ε of Adam.** It must be as large as the gradient of its role. CompleteP's table scales it in the
residual blocks alone, its code takes one ε for all parameters, Complete(d)P mends the embedding,
Megatron-LM's recipe the embedding and the head. Published, and in brackets what the algebra asks
for where that is another one (a head drawn at 1/d has a larger gradient than one so multiplied):

{epsilons}
**Weight decay.** What one step takes of a hidden matrix, by source:

{decays}
The algebra keeps η·ω, a convention: another one is as consistent, and asks for another ω.
Qiu et al., arXiv 2512.05620, find an independent weight decay of 1/d close to the best. A coupled
one cannot keep the share under Adam, and be as large as the gradient too.

**Rates of embeddings.** u-μP steps an embedding by d^(-1/2), nanochat too: the algebra says 1, and
calls what they do a lazier embedding.

**A sign.** The code of maxP has {sign_published} for the head of the mean-field parametrisation
under Adam at no alignment. By the conditions of the paper that it follows, as by these here, it is
{sign_asked}.

**SGD's head at no alignment.** Where the head is drawn at 1/d the published rate stops where the
update is as large as the head itself; (U) alone asks for √d more.
"""


def page() -> str:
    """The whole page."""
    tables = {
        alignment: {name: _table(name, alignment) for name in optimizers()}
        for alignment in ALIGNMENTS
    }
    judged = [
        judge_parametrisation(given, None, given.columns[0].alignment)
        for given in parametrisations().values()
    ]
    cells = [(one.scheme.name, c) for one in judged for c in one.cells]
    lamb = {a: tables[a]["lamb"].row("query").rate for a in ALIGNMENTS}  # type: ignore[union-attr]
    (sign,) = (
        c
        for name, c in cells
        if (name, c.optimizer, c.alignment, c.of, c.quantity)
        == ("everett-mean-field", "adam", NONE, "head", "rate")
    )
    lines = [
        "## Learning rates",
        "",
        *(line for a in ALIGNMENTS for line in _rates(tables[a], a)),
        "## Epsilon and decoupled weight decay, full alignment",
        "",
        *_beside(tables[FULL]),
        "## Published parametrisations",
        "",
        "Under their own optimizer. *Regime*: features move alike at every width, are lazy, or "
        "unstable. Then how far one update moves each output, the size of the logits at the start, "
        "and how far one update moves them. *One class*: c·σ and c·η·action have the same powers "
        "in every matrix, so that W = c·W′ turns one into the other.",
        "",
        *_published(judged),
        "## Published cells that differ",
        "",
        f"Of {len(cells)} published cells {sum(c.agrees for _, c in cells)} are what the "
        "conditions ask for at the published multipliers; these differ.",
        "",
        *_differing(cells),
        DISAGREE.format(
            lamb_full=_text(lamb[FULL]),
            lamb_none=_text(lamb[NONE]),
            epsilons="\n".join(_epsilons(cells)),
            decays="\n".join(_decays(judged)),
            sign_published=_text(sign.published),
            sign_asked=_text(sign.derived),
        ),
    ]
    return HEAD + "\n".join(lines)


def _table(name: str, alignment: str) -> WidthTable | None:
    try:
        return width_table(
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


def _columns(tables: dict[str, WidthTable | None], *quantities: str) -> dict[tuple, list[str]]:
    """Roles that are alike under every optimizer, and what they are alike in."""
    found: dict[tuple, list[str]] = {}
    for role in _roles(tables):
        rows = [None if t is None else t.row(role) for t in tables.values()]
        told = tuple(tuple(_text(getattr(row, q, None)) for q in quantities) for row in rows)
        found.setdefault(told, []).append(role)
    return found


def _roles(tables: dict[str, WidthTable | None]) -> list[str]:
    rows = next(t for t in tables.values() if t is not None).rows
    return list(dict.fromkeys(row.role for row in rows if row.role != "key-bias"))


def _text(size: object) -> str:
    return "-" if size is None else str(size).replace("**", "^")


def _rates(tables: dict[str, WidthTable | None], alignment: str) -> Iterator[str]:
    columns = _columns(tables, "rate")
    yield f"Alignment {alignment}:"
    yield ""
    head = ["optimizer", *(", ".join(roles) for roles in columns.values())]
    rows = ([name, *(told[i][0] for told in columns)] for i, name in enumerate(tables))
    yield from _rows(head, rows)


def _beside(tables: dict[str, WidthTable | None]) -> Iterator[str]:
    columns = _columns(tables, "epsilon", "decay")
    head = ["optimizer", *(", ".join(roles) for roles in columns.values())]
    rows = ([name, *("; ".join(told[i]) for told in columns)] for i, name in enumerate(tables))
    yield from _rows(head, rows)


def _power(exponent: str | None) -> str:
    return "-" if exponent is None else "1" if exponent == "0" else f"d^({exponent})"


def _published(judged: list[WidthJudgement]) -> Iterator[str]:
    shown = ("token-embedding", "query", "fc2", "norm-gain", "head")
    classes: dict[frozenset[str], int] = {}
    rows = []
    for one in judged:
        roles = {t.role: t for t in one.judged.roles}
        together = frozenset({one.scheme.name, *one.alike})
        number = classes.setdefault(together, len(classes) + 1) if one.alike else ""
        most = max((Fraction(t.logits) for t in roles.values() if t.logits), default=None)
        rows.append(
            [
                one.scheme.name,
                one.optimizer + ("" if one.alignment == FULL else ", no alignment"),
                one.judged.regime + ("" if one.judged.near_identity else ", branches outgrow"),
                *(_power(roles[r].output) if r in roles else "not said" for r in shown),
                _power(roles["head"].start) if "head" in roles else "not said",
                _power(None if most is None else str(most)),
                number,
                one.scheme.source,
            ]
        )
    head = ("name", "under", "regime", *shown, "logits", "moved", "class", "source")
    yield from _rows(head, rows)
    for together, number in classes.items():
        yield f"{number}. {', '.join(sorted(together))}"
    yield ""


def _differing(cells: list[tuple[str, Cell]]) -> Iterator[str]:
    rows = [
        [
            name,
            c.optimizer,
            c.alignment,
            c.of,
            c.quantity.replace("*", "·"),
            _text(c.published),
            _text(c.derived),
            c.why,
        ]
        for name, c in cells
        if not c.agrees
    ]
    head = ("name", "optimizer", "alignment", "class", "", "published", "asked", "why nothing")
    yield from _rows(head, rows)


def _epsilons(cells: list[tuple[str, Cell]]) -> Iterator[str]:
    """Sources that speak of the depth a row, classes of parameters a column."""
    found: dict[str, dict[str, str]] = {}
    for name, c in cells:
        if c.quantity == "epsilon" and parametrisations()[name].branch != "1":
            asked = "" if c.agrees else f" [{_text(c.derived)}]"
            found.setdefault(name, {})[c.of] = f"{_text(c.published)}{asked}"
    classes = list(dict.fromkeys(of for own in found.values() for of in own))
    rows = ([name, *(own.get(of, "-") for of in classes)] for name, own in found.items())
    yield from _rows(("source", *classes), rows)


def _decays(judged: list[WidthJudgement]) -> Iterator[str]:
    rows = []
    for one in judged:
        for column in one.scheme.columns:
            if "hidden" in column.decay and column.decays != "coupled":
                rate = size(column.rate["hidden"]) if column.decays == "decoupled" else None
                decay = size(column.decay["hidden"])
                assert decay is not None
                share = decay if rate is None else decay * rate
                rows.append(
                    [
                        one.scheme.name,
                        column.decays,
                        column.decay["hidden"],
                        _power(str(share.exponent("d"))),
                    ]
                )
    yield from _rows(("source", "how it is applied", "ω", "share of a step"), rows)


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
