"""A document as plain text, on the columns that a terminal has; on 80 in a file."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import Any

from deepnet_theory.definitions.expression import RAISED
from deepnet_theory.report import document as doc

_WHOLE = re.compile(r"(?<=[\w)|‖])\^(?:\((−?\d+)\)|([02-9])(?![\w./]))")

LEAST, MOST, FILE = 60, 120, 80  # columns of a page
INDENT = 6  # of the text under an equation's number
GAP = 2  # between columns
ROOM = 28  # for a column of sentences; where there is less they go under their row


def page_columns() -> int:
    """The terminal's width, or COLUMNS where that is set, between 60 and 120; 80 in a file."""
    return min(MOST, max(LEAST, get_terminal_size((FILE, 24)).columns))


GREEN, RED, YELLOW, BOLD, PLAIN = (f"\033[{code}m" for code in (32, 31, 33, 1, 0))
COLOURS = {
    "PROVED": GREEN,
    "MEASURED": GREEN,
    "SUPPORTED": GREEN,
    "REFUTED": RED,
    "UNDECIDED": YELLOW,
}
_VERDICT = re.compile(rf"(?<!\S)({'|'.join(COLOURS)})(?!\w)")
_UNDERLINED = re.compile(r"^(\S.*)(?=\n[=~.-]{3,}$)", re.M)


def coloured(page: str) -> str:
    """A page with its headings in bold and each verdict in the colour of what it says."""
    bold = _UNDERLINED.sub(rf"{BOLD}\1{PLAIN}", page)
    return _VERDICT.sub(lambda verdict: f"{COLOURS[verdict[0]]}{verdict[0]}{PLAIN}", bold)


def text(document: doc.Document) -> str:
    """The whole document; its figures are for pages, and its tables have their numbers."""
    return "\n\n".join(_blocks(document, 0))


def _blocks(document: doc.Document, level: int) -> Iterator[str]:
    """Each block as one text; the steps of a derivation stand close, below a bare title."""
    title = folded(plain(document.title))
    body = [block for block in document.body if block]
    if steps := [block for block in body if isinstance(block, doc.Proposition)]:
        yield "\n".join((*title, *(line for step in steps for line in _equation(step))))
    elif document.title:
        yield "\n".join((*title, "=-~."[level] * max(map(len, title))))
    for block in body:
        match block:
            case doc.Document():
                yield from _blocks(block, level + 1)
            case doc.TableBlock():
                yield "\n".join(_table(block))
            case doc.Listing():
                yield textwrap.indent(block.text.rstrip(), " " * GAP)
            case str() | tuple() | doc.Formula():
                yield "\n".join(folded(plain(block)))


def raised(text: str) -> str:
    """A line of signs with its whole exponents raised: S·r², and N for N^(1)."""

    def whole(exponent: re.Match[str]) -> str:
        return "" if exponent[1] == "1" else (exponent[1] or exponent[2]).translate(RAISED)

    return _WHOLE.sub(whole, text)


def plain(words: doc.Words) -> str:
    """A line with its formulas in signs; the grammar of formulas reads them."""
    return raised(doc.lettered(doc.joined(words, str, "{}", str)))


def folded(words: str, indent: int = 0, first: str | None = None) -> list[str]:
    """Words folded to the page, ``indent`` deep; the first line begins with ``first``."""
    space = " " * indent
    return textwrap.wrap(
        words,
        page_columns(),
        initial_indent=space if first is None else first,
        subsequent_indent=space,
        break_on_hyphens=False,
    )


def _equation(step: doc.Proposition) -> Iterator[str]:
    """Number, formula and verdict, and the reason below them or, where it fits, between them."""
    from deepnet_theory.report.notation import equation

    room = page_columns() - len(step.verdict)
    lines = textwrap.TextWrapper(room - INDENT - GAP, subsequent_indent=" " * 4)
    lines.wordsep_re = re.compile(r"(\s+)|(?<=·)")  # between factors, and in no name
    first, *more = lines.wrap(raised(equation(step.step)))
    line = f"({step.number})".ljust(INDENT) + first
    reason = plain(f"{step.step.because} {step.fails}".rstrip())
    if not more and len(line) + INDENT + len(reason) + GAP <= room:
        line, reason = line + " " * INDENT + reason, ""
    yield (line.ljust(room) + step.verdict).rstrip()
    yield from (" " * INDENT + other for other in more)
    yield from folded(reason, INDENT)


def _table(table: doc.TableBlock) -> Iterator[str]:
    """Aligned columns; those that do not fit come in further tables, with the first one again."""
    rows = [tuple(map(plain, row)) for row in (table.head, *table.rows) if row]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [i for i in range(len(widths)) if i not in table.sentences]
    for chosen in _fitting(aligned, widths):
        if chosen[1:2] != aligned[1:2]:
            yield ""
        used = GAP + sum(widths[i] + GAP for i in chosen)
        beside = len(table.sentences) == 1 and chosen == aligned and page_columns() - used >= ROOM
        for number, row in enumerate(rows, start=not table.head):
            line = " " * GAP
            for i in chosen:
                cell = row[i].rjust(widths[i]) if i in table.numbers else row[i].ljust(widths[i])
                line += cell + " " * GAP
            if beside:
                yield from folded(row[table.sentences[0]] or "-", used, first=line)
                continue
            yield from folded(line.rstrip(), INDENT, first="")
            if number and chosen[-1] == aligned[-1]:
                for i in table.sentences:
                    yield from folded(row[i], INDENT)


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


def progress_line(done: float, total: float, what: str) -> None:
    """Show on standard error how much is done, on one line that the next one writes over."""
    line = f"{done / total:4.0%}  {what}"[: page_columns()] if done < total else ""
    print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def live(quiet: bool) -> dict[str, Any]:
    """The keyword ``progress`` of whatever measures; None where nobody watches or ``quiet``."""
    return {"progress": None if quiet or not sys.stderr.isatty() else progress_line}
