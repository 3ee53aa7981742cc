"""A table of width as a document: a row a role, its numbers, and the steps that lead to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from deepnet_theory.definitions.outcome import Verdict
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
SIZES = {"gradient": "gradient", "update": "update", "action": "moves its output by"}


def title(derivation: WidthDerivation) -> str:
    table = derivation.table
    dimension = "width" if table.across == "width" else "width and depth"
    return f"{rule.title(table.selection)} across {dimension}"


def one_line(derivation: WidthDerivation) -> str:
    rates = (f"{row.role} {row.rate}" for row in derivation.table.rows if row.rate is not None)
    once = ", ".join(dict.fromkeys(rates))
    return f"<WidthDerivation of {title(derivation)}: rates {once}; {derivation.verdict}>"


def short(derivation: WidthDerivation) -> doc.Document:
    """The table and its numbers, what is refused, and what is forced or chosen."""
    sections = (
        doc.Section("Conventions", doc.paragraphs(derivation.table.conventions)),
        doc.Section("Forced, whatever the conventions", doc.paragraphs(derivation.table.forced)),
    )
    closing = (
        doc.Paragraph(f"The {len(derivation.steps)} steps: --steps.", aside=True),
        doc.Paragraph(conclusion(derivation)),
    )
    return doc.Document(title(derivation), tuple(_answer(derivation)), sections, closing)


def document(derivation: WidthDerivation) -> doc.Document:
    """All of it: the sizes behind the table, and every step."""
    rows = derivation.table.rows
    refused = doc.gathered((r.coupled_refused, r.role) for r in rows if r.coupled_refused)
    coupled = doc.paragraphs(f"{', '.join(roles)}: {why}." for why, roles in refused.items())
    sections = (
        doc.Section("Sizes of one update, per unit of learning rate", (_table(rows, SIZES),)),
        doc.Section("Coupled weight decay", (_table(rows, COUPLED), *coupled)),
        *short(derivation).sections,
        doc.Section("Derivation", rule.steps(derivation)),  # type: ignore[arg-type]
    )
    closing = (doc.Paragraph(conclusion(derivation)),)
    return doc.Document(title(derivation), tuple(_answer(derivation)), sections, closing)


def conclusion(derivation: WidthDerivation) -> tuple[Verdict, str]:
    return derivation.verdict, f": {derivation.shown}."


def _answer(derivation: WidthDerivation) -> Iterator[doc.Block]:
    table = derivation.table
    kept = [row for row in table.rows if row.refused is None]
    symbols = "d" if table.across == "width" else "d, N and M"
    closure = f", closure {table.closure}" if table.closure else ""
    if table.rule is not None:
        alphas = dict.fromkeys(e.alpha for e in table.rule.entries)
        if any("alpha" in p.expression.names for p in table.selection.placements):
            shown = (piece for a in alphas for piece in (", alpha = ", doc.Formula(a)))
            yield doc.Paragraph(
                ("Every sublayer is ", *rule.equations(table.selection), *shown, ".")
            )
        if condition := table.selection.training_condition:
            yield doc.Paragraph(condition)
    yield doc.Paragraph(f"In powers of {symbols}, alignment {table.alignment}, form {table.form}"
                        f"{closure}:")  # fmt: skip
    yield _table(kept, COLUMNS)
    if derivation.scale is not None:
        yield doc.Paragraph(f"{derivation.scale.words} multiply what the base model takes by:")
        yield _table(kept, COLUMNS, derivation.scale.ratio)
    if table.blocks:
        by_head = "An update that steps every head by itself, heads of k entries, is another one:"
        yield doc.Paragraph(by_head)
        yield _table(table.blocks, COLUMNS)
    refused = doc.gathered((row.refused, row.role) for row in table.rows if row.refused is not None)
    for why, roles in refused.items():
        yield doc.Paragraph(f"Refused, {', '.join(roles)}: {why}.")


def _table(
    rows: Iterable[WidthRow],
    columns: Mapping[str, str],
    ratio: Callable[[Monomial], float] | None = None,
) -> doc.Table:
    """A line a role, once where sublayers agree; with a ``ratio`` numbers in place of formulas."""
    lines: dict[tuple[doc.Words, ...], None] = {}
    for row in rows:
        sizes = ((name, getattr(row, name)) for name in columns)
        lines[row.role, *(cell(name, size, ratio) for name, size in sizes)] = None
    sign = "" if ratio is None else ">"
    return doc.table(" | ".join(("role", *(sign + name for name in columns.values()))), lines)


def cell(name: str, size: Monomial | None, ratio: Callable[[Monomial], float] | None) -> doc.Words:
    """A size as a formula or a number; what starts at 0 is 0, what does not apply is "-"."""
    if size is None:
        return "0" if name == "init" else "-"
    return doc.Formula(written(size)) if ratio is None else number(ratio(size))
