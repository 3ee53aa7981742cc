"""A table of width as a document: a row a role, its numbers, and the steps that lead to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report import rule
from deepnet_theory.report.document import number
from deepnet_theory.sizes.width import written

if TYPE_CHECKING:
    from deepnet_theory.proof.width import WidthDerivation
    from deepnet_theory.sizes.monomial import Monomial
    from deepnet_theory.sizes.width import WidthRow

COLUMNS = {  # of a row, and how the page calls them
    "init": "initial size",
    "multiplier": "multiplier",
    "rate": "learning rate",
    "epsilon": "epsilon",
    "decay": "weight decay",
}
COUPLED = {"coupled_decay": "coupled decay"}
SIZES = {"gradient": "gradient", "update": "update", "action": "changes its output by"}


def title(derivation: WidthDerivation) -> str:
    """The network, its optimizer, and the dimensions that vary."""
    dimension = "width" if derivation.table.across == "width" else "width and depth"
    return f"{rule.title(derivation.table.selection)} across {dimension}"


def one_line(derivation: WidthDerivation) -> str:
    """A derivation in width as an interpreter shows it."""
    rates = (f"{row.role} {row.rate}" for row in derivation.table.rows if row.rate is not None)
    once = ", ".join(dict.fromkeys(rates))
    return f"<WidthDerivation of {title(derivation)}: rates {once}; {derivation.verdict}>"


def short(derivation: WidthDerivation) -> doc.Document:
    """The table and its numbers, what is refused, and what is forced or chosen."""
    end = (f"The {len(derivation.steps)} steps: --steps.", conclusion(derivation))
    return doc.Document(title(derivation), (*_answer(derivation), *_chosen(derivation), *end))


def document(derivation: WidthDerivation) -> doc.Document:
    """All of it: the sizes behind the table, and every step."""
    rows = derivation.table.rows
    refused = doc.gathered((r.coupled_refused, r.role) for r in rows if r.coupled_refused)
    coupled = (f"{', '.join(roles)}: {why}." for why, roles in refused.items())
    body: doc.Body = (
        *_answer(derivation),
        doc.Document("Sizes of one update, per unit of learning rate", (_table(rows, SIZES),)),
        doc.Document("Coupled weight decay", (_table(rows, COUPLED), *coupled)),
        *_chosen(derivation),
        doc.Document("Derivation", rule.steps(derivation)),
        conclusion(derivation),
    )
    return doc.Document(title(derivation), body)


def conclusion(derivation: WidthDerivation) -> tuple[doc.Inline, ...]:
    return derivation.verdict, f": {derivation.shown}."


def _chosen(derivation: WidthDerivation) -> Iterator[doc.Document]:
    yield doc.Document("Conventions", derivation.table.conventions)
    yield doc.Document("Forced, whatever the conventions", derivation.table.forced)


def _answer(derivation: WidthDerivation) -> Iterator[doc.Block]:
    table = derivation.table
    kept = [row for row in table.rows if row.refused is None]
    symbols = "d" if table.across == "width" else "d, N and M"
    closure = f", closure {table.closure}" if table.closure else ""
    if table.rule is not None:
        alphas = dict.fromkeys(e.alpha for e in table.rule.entries)
        if "alpha" in (placement := table.selection.the_placement).expression.names:
            shown = (piece for a in alphas for piece in (", alpha = ", doc.Formula(a)))
            yield ("Every sublayer is ", doc.Formula(placement.equation), *shown, ".")
        yield table.selection.the_placement.training_condition
    yield f"In powers of {symbols}, alignment {table.alignment}, form {table.form}{closure}:"
    yield _table(kept, COLUMNS)
    if derivation.scale is not None:
        yield f"{derivation.scale.words} multiply what the base model takes by:"
        yield _table(kept, COLUMNS, derivation.scale.ratio)
    if table.blocks:
        yield "If an update steps every head on its own, heads of k entries, these rows change:"
        yield _table(table.blocks, COLUMNS)
    refused = doc.gathered((row.refused, row.role) for row in table.rows if row.refused is not None)
    yield from (f"Refused, {', '.join(roles)}: {why}." for why, roles in refused.items())


def _table(
    rows: Iterable[WidthRow],
    columns: Mapping[str, str],
    ratio: Callable[[Monomial], float] | None = None,
) -> doc.Table:
    """A line a role, once where sublayers agree; with a ``ratio`` numbers in place of formulas."""
    lines = dict.fromkeys(
        (row.role, *(cell(name, getattr(row, name), ratio) for name in columns)) for row in rows
    )
    sign = "" if ratio is None else ">"
    return doc.table(" | ".join(("role", *(sign + name for name in columns.values()))), lines)


def cell(name: str, size: Monomial | None, ratio: Callable[[Monomial], float] | None) -> doc.Words:
    """A size as a formula or a number; what starts at 0 is 0, what does not apply is "-"."""
    if size is None:
        return "0" if name == "init" else "-"
    return doc.Formula(written(size)) if ratio is None else number(ratio(size))
