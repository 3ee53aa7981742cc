"""How wide a page of plain text is."""

from __future__ import annotations

from shutil import get_terminal_size

LEAST, MOST = 60, 80


def page_columns() -> int:
    """The terminal's width, or COLUMNS where that is set, between 60 and 80; 80 in a file."""
    return min(MOST, max(LEAST, get_terminal_size((MOST, 24)).columns))
