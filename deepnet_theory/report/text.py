"""A document as plain text, on the columns that a terminal has; on 80 in a file."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from deepnet_theory.report import document as doc
from deepnet_theory.report.document import GREEK
from deepnet_theory.report.experiment import points as points_table

if TYPE_CHECKING:
    from rich.progress import Progress

    from deepnet_theory.definitions.measurement import Estimate


LEAST, MOST, FILE = 60, 120, 80  # columns of a page
INDENT = 6  # of what stands under an equation's number
GAP = 2  # between columns
ROOM = 28  # for a column of sentences; where there is less they stand under their row


def page_columns() -> int:
    """The terminal's width, or COLUMNS where that is set, between 60 and 120; 80 in a file."""
    return min(MOST, max(LEAST, get_terminal_size((FILE, 24)).columns))


GREEN, RED, YELLOW, BOLD, PLAIN = (f"\033[{code}m" for code in (32, 31, 33, 1, 0))
COLOURS = {"PROVED": GREEN, "SUPPORTED": GREEN, "REFUTED": RED, "UNDECIDED": YELLOW}
_VERDICT = re.compile(rf"(?<!\S)({'|'.join(COLOURS)})(?!\w)")
_UNDERLINED = re.compile(r"^(\S.*)(?=\n[=~.-]{3,}$)", re.M)


def coloured(page: str) -> str:
    """A page with its headings in bold and each verdict in the colour of what it says."""
    bold = _UNDERLINED.sub(rf"{BOLD}\1{PLAIN}", page)
    return _VERDICT.sub(lambda verdict: f"{COLOURS[verdict[0]]}{verdict[0]}{PLAIN}", bold)


def text(document: doc.Document) -> str:
    """The whole document; its figures are for pages, and their numbers stand in its tables."""
    page = [""]
    before: object = None
    for block in doc.in_order(document):
        # a derivation is read down its numbers: its steps stand close, below a bare title
        close = isinstance(block, doc.Step) and isinstance(before, doc.Step | doc.Heading)
        if close and isinstance(before, doc.Heading):
            page.pop()
        if lines := _block(block):
            page += [*([] if close else [""]), *lines]
            before = block
    return "\n".join(page[2:])


def _block(block: doc.Heading | doc.Block) -> list[str]:
    match block:
        case doc.Heading():
            title = _folded(lettered(block.title), 0)
            return [*title, "=-~."[block.level] * max(map(len, title))]
        case doc.Paragraph():
            return _folded(plain(block.words), 0)
        case doc.Terms():
            return list(_terms(block))
        case doc.Table():
            return list(_table(block))
        case doc.RuleBox():
            return list(_rule(block))
        case doc.Step():
            return list(_step(block))
        case doc.Listing():
            return [f"  {line}" for line in block.text.splitlines()]
        case doc.Files():
            return _folded(block.named, 0)
        case doc.Figure():
            return []


# a Greek letter's name among words or in a formula, and not in an option's
_NAMED = re.compile(rf"(?<!\w)(?<!--)({'|'.join(GREEK)})(?!\w|-\w)")


def lettered(words: str) -> str:
    """α for alpha where a terminal shows letters, and alpha in a pipe or a file."""
    shown = getattr(sys.stdout, "letters", False)
    return _NAMED.sub(lambda name: GREEK[name[0]], words) if shown else words


def plain(words: doc.Words) -> str:
    return doc.spelled(words, lettered, inline, str, str)


def inline(formula: doc.Formula) -> str:
    """A formula in one line, as it can be typed again."""
    shown = formula.expression
    # what a rule writes is a text already: the page of an answer needs no SymPy
    if isinstance(shown, str):
        return lettered(shown)
    from deepnet_theory.report.notation import typed

    return lettered(typed(shown))


def _folded(words: str, indent: int, first: str | None = None) -> list[str]:
    """Words folded to the page, ``indent`` deep; the first line begins with ``first``."""
    space = " " * indent
    return textwrap.wrap(
        words,
        page_columns(),
        initial_indent=space if first is None else first,
        subsequent_indent=space,
        break_on_hyphens=False,
    )


def _terms(terms: doc.Terms) -> Iterator[str]:
    column = max((len(label) for label, _ in terms.rows), default=0) + 4
    for label, words in terms.rows:
        yield from _folded(plain(words) or "-", column, first=f"  {label}".ljust(column))


def _rule(rule: doc.RuleBox) -> Iterator[str]:
    for owner, knobs in rule.rows:
        yield from _folded(owner, 2)
        for knob in knobs:
            symbol = lettered(knob.symbol)
            name = f"{symbol} is multiplied by" if knob.symbol == "eta" else f"{symbol:5} ="
            value = f"  = {knob.value}" if knob.value else ""
            yield f"    {name} {inline(knob.formula)}{value}"
    if rule.depth:
        yield f"  (values at {rule.depth})"


def _step(step: doc.Step) -> Iterator[str]:
    """Number, equation and verdict, the reason below them or, where it fits, between them."""
    from deepnet_theory.report.notation import equation

    verdict, fails = plain(step.verdict[:1]), plain(step.verdict)
    reason = f"{plain(step.because)} {fails}" if fails != verdict else plain(step.because)
    first, *more = equation(step, page_columns() - INDENT, len(verdict) + GAP)
    line = f"({step.number})".ljust(INDENT) + first
    room = page_columns() - len(verdict)
    if not more and len(line) + INDENT + len(reason) + GAP <= room:
        line, reason = line + " " * INDENT + reason, ""
    yield (line.ljust(room) + verdict).rstrip()
    yield from (" " * INDENT + other for other in more)
    yield from _folded(reason, INDENT)


def _table(table: doc.Table) -> Iterator[str]:
    """Aligned columns; those that do not fit come in further tables, with the first one again."""
    rows = [table.head, *(tuple(map(plain, row)) for row in table.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.head))]
    aligned = [i for i in range(len(widths)) if i not in table.sentences]
    for chosen in _fitting(aligned, widths):
        if chosen[1:2] != aligned[1:2]:
            yield ""
        used = GAP + sum(widths[i] + GAP for i in chosen)
        beside = len(table.sentences) == 1 and chosen == aligned and page_columns() - used >= ROOM
        for number, row in enumerate(rows):
            line = " " * GAP
            for i in chosen:
                cell = row[i].rjust(widths[i]) if i in table.numbers else row[i].ljust(widths[i])
                line += cell + " " * GAP
            if beside:
                yield from _folded(row[table.sentences[0]] or "-", used, first=line)
                continue
            yield line.rstrip()
            if number and chosen[-1] == aligned[-1]:
                for i in table.sentences:
                    yield from _folded(row[i], INDENT)


def _fitting(columns: Sequence[int], widths: Sequence[int]) -> Iterator[list[int]]:
    first, *others = columns
    chosen, used = [first], GAP + widths[first]
    for column in others:
        if len(chosen) > 1 and used + GAP + widths[column] > page_columns():
            yield chosen
            chosen, used = [first], GAP + widths[first]
        chosen.append(column)
        used += GAP + widths[column]
    yield chosen


# ---- while something is measured: points as they come, progress, time left ----

NUMBER, INTERVAL = 9, 18  # columns of a point


@contextmanager
def live(title: str, quiet: bool, points: bool = False) -> Iterator[dict[str, Any]]:
    """What a person who watches standard error is shown: the keywords of whatever measures.

    ``progress`` moves a bar with the time left; with ``points``, ``watch`` prints each above it.
    Both are None where nobody watches or ``quiet`` is asked for.
    """
    if quiet or not sys.stderr.isatty():
        yield {"progress": None, "watch": None} if points else {"progress": None}
        return
    # rich is imported only where there is a terminal to draw on
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    # without colour the cursor moves all the same, and nothing is bold
    console = Console(stderr=True, color_system=None if os.environ.get("NO_COLOR") else "auto")
    columns = (
        *([] if points else [TextColumn(title)]),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        if not points:
            yield {"progress": _reporter(bar)}
            return
        console.print(title, markup=False, highlight=False)
        headed = False

        def watch(point: Estimate) -> None:
            nonlocal headed
            table = points_table([point])
            for row in (table.rows[0],) if headed else (table.head, table.rows[0]):
                widths = (INTERVAL if "interval" in head else NUMBER for head in table.head)
                cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
                console.print("  " + "  ".join(cells), markup=False, highlight=False)
            headed = True

        yield {"progress": _reporter(bar), "watch": watch}


def _reporter(bar: Progress) -> Callable[[float, float, str], None]:
    task = bar.add_task("", total=None)
    shown = [""]

    def report(done: float, total: float, what: str) -> None:
        bar.update(task, completed=done, total=total, description=what)
        if what != shown[0]:  # every new stage is drawn at once, however short it is
            bar.refresh()
        shown[0] = what

    return report
