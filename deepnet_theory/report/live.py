"""What a person sees while something is measured: points as they come, progress, time left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deepnet_theory.report.measurement import points as points_table

if TYPE_CHECKING:
    from rich.progress import Progress

    from deepnet_theory.spec.results.measurement import Point

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

        def watch(point: Point) -> None:
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
