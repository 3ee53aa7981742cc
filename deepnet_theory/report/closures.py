"""The closures side by side: every one's rule and what it implies, as powers of the depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sympy.printing.str import StrPrinter

from deepnet_theory.report import latex as tex
from deepnet_theory.report import markdown as md
from deepnet_theory.report.notation import as_written, expression_latex
from deepnet_theory.report.outline import depth_words, owner, title
from deepnet_theory.report.text import WIDTH, heading, paragraph

if TYPE_CHECKING:
    from deepnet_theory.symbolic.rule.consequences import Comparison

_GAP = 3


@dataclass(frozen=True)
class Row:
    """One quantity of one kind of sublayer, under each closure."""

    name: str
    meaning: str
    cells: dict[str, Any]  # closure → SymPy expression or number


@dataclass(frozen=True)
class Table:
    """What the closures make of one kind of sublayer."""

    owner: str
    rows: tuple[Row, ...]


def tables(comparison: Comparison) -> Iterator[Table]:
    """One table for each entry of the rule."""
    depth = dict(comparison.values)
    first = next(iter(comparison.rules.values()))
    for entry in first.entries:
        own = {
            name: rule.entry(entry.part, entry.sublayer) for name, rule in comparison.rules.items()
        }
        rows = [
            Row("alpha", "residual multiplier", {n: as_written(e.alpha) for n, e in own.items()}),
            Row(
                "beta",
                "gain of the scaled matrices",
                {n: as_written(e.beta) for n, e in own.items()},
            ),
        ]
        if any(rule.eta != "1" for rule in comparison.rules.values()):
            etas = {name: as_written(rule.eta) for name, rule in comparison.rules.items()}
            rows.append(Row("eta", "factor on the learning rate", etas))
        if depth:
            where = depth_words(depth)
            for index, name in enumerate(("alpha", "beta")):
                numbers = {n: f"{e.at(**depth)[index]:.6g}" for n, e in own.items()}
                rows.append(Row(f"{name} at {where}", "", numbers))
        found: dict[str, Row] = {}
        for closure, implied in comparison.consequences.items():
            for c in implied:
                if (c.part, c.sublayer) == (entry.part, entry.sublayer):
                    row = found.setdefault(c.name, Row(c.name, c.meaning, {}))
                    row.cells[closure] = c.value
        yield Table(owner(entry), (*rows, *found.values()))


def text(comparison: Comparison) -> str:
    """The comparison in at most 80 columns; closures that do not fit come in a further table."""
    head = _title(comparison)
    lines = [head, "=" * min(len(head), WIDTH)]
    for table in tables(comparison):
        lines += heading(table.owner)
        labels = [row.name for row in table.rows]
        columns = {
            name: [name, *(_plain(row.cells.get(name)) for row in table.rows)]
            for name in comparison.rules
        }
        for chosen in _fitting(columns, WIDTH - max(map(len, labels)) - 2):
            lines.append("")
            for cells in zip(["", *labels], *(columns[name] for name in chosen), strict=True):
                label, values = cells[0], cells[1:]
                line = "  " + label.ljust(max(map(len, labels)))
                for name, value in zip(chosen, values, strict=True):
                    line += " " * _GAP + value.ljust(max(map(len, columns[name])))
                lines.append(line.rstrip())
    meanings = next(tables(comparison)).rows
    lines += heading("Meaning")
    for row in meanings:
        lines += paragraph(f"{row.name}: {row.meaning}", 4, first="  ") if row.meaning else []
    if comparison.refused:
        lines += heading("Refused")
        for name, why in comparison.refused.items():
            lines += paragraph(f"{name}: {why}", 4, first="  ")
    lines += ["", f"Without --closure: {comparison.default}"]
    return "\n".join(lines)


def _title(comparison: Comparison) -> str:
    return f"Closures: {title(comparison.selection)}"


def _plain(value: Any) -> str:
    return (
        "-" if value is None else value if isinstance(value, str) else StrPrinter().doprint(value)
    )


def _fitting(columns: dict[str, list[str]], width: int) -> Iterator[list[str]]:
    chosen: list[str] = []
    used = 0
    for name, cells in columns.items():
        needed = _GAP + max(map(len, cells))
        if chosen and used + needed > width:
            yield chosen
            chosen, used = [], 0
        chosen.append(name)
        used += needed
    yield chosen


def _formula(value: Any) -> str:
    if value is None:
        return "--"
    return value if isinstance(value, str) else f"${expression_latex(value)}$"


def markdown(comparison: Comparison) -> str:
    """The comparison as Markdown tables."""
    lines = [f"# {md.escape(_title(comparison))}"]
    for table in tables(comparison):
        lines += ["", f"## {md.escape(table.owner)}", ""]
        lines += [
            f"| | {' | '.join(comparison.rules)} | |",
            "|---" * (len(comparison.rules) + 2) + "|",
        ]
        for row in table.rows:
            cells = (_formula(row.cells.get(name)) for name in comparison.rules)
            lines.append(
                f"| {md.escape(row.name)} | {' | '.join(cells)} | {md.escape(row.meaning)} |"
            )
    if comparison.refused:
        lines += ["", "## Refused", ""]
        lines += [f"- **{n}**: {md.escape(why)}" for n, why in comparison.refused.items()]
    lines += ["", f"Without a closure given: {comparison.default}"]
    return "\n".join(lines)


def latex(comparison: Comparison) -> str:
    """The comparison as a document that LaTeX compiles as it stands."""
    lines = [*tex.PREAMBLE, rf"\section*{{{tex.escape(_title(comparison))}}}"]
    for table in tables(comparison):
        lines += ["", rf"\subsection*{{{tex.escape(table.owner)}}}", ""]
        lines += [rf"\begin{{tabular}}{{l{'l' * len(comparison.rules)}}}"]
        lines.append(f"& {' & '.join(map(tex.escape, comparison.rules))} \\\\ \\hline")
        for row in table.rows:
            cells = (_formula(row.cells.get(name)) for name in comparison.rules)
            lines.append(f"{tex.escape(row.name)} & {' & '.join(cells)} \\\\")
        lines.append(r"\end{tabular}")
    if comparison.refused:
        lines += [r"\subsection*{Refused}", r"\begin{description}"]
        lines += [rf"\item[{tex.escape(n)}] {tex.escape(w)}" for n, w in comparison.refused.items()]
        lines.append(r"\end{description}")
    lines += [
        "",
        f"Without a closure given: {tex.escape(comparison.default)}",
        r"\end{document}",
        "",
    ]
    return "\n".join(lines)
