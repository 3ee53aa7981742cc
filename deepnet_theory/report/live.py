"""What a person sees while something is measured: points as they come, progress, time left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deepnet_theory.report.measurement import points as points_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from deepnet_theory.spec.results.verification import Point

AROUND = 7  # lines above and below the rows of the table: title, head, rules, progress


@contextmanager
def live(title: str, quiet: bool, points: bool = False) -> Iterator[dict[str, Any]]:
    """What a person who watches standard error is shown: the keywords of whatever measures.

    ``progress`` moves a bar with the time left; with ``points``, ``watch`` adds a row to a table
    above it. Both are None where nobody watches or ``quiet`` is asked for.
    """
    if quiet or not sys.stderr.isatty():
        yield {"progress": None, "watch": None} if points else {"progress": None}
        return
    console = _console()
    if not points:
        with _bar(title, console, transient=True) as bar:
            yield {"progress": _reporter(bar, bar.refresh)}
        return
    # rich is imported only where there is a terminal to draw on
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    seen: list[Point] = []
    bar = _bar("", console, transient=False)

    def drawn() -> Group:
        room = max(1, console.height - AROUND)
        heading = title
        if len(seen) > room:
            heading += f" (the last {room} of {len(seen)} points)"
        return Group(Text(heading), _table(seen[-room:]) if seen else "", bar)

    # the table stays where standard output, which gets the final one, is not a terminal
    transient = sys.stdout.isatty()
    with Live(console=console, get_renderable=drawn, transient=transient) as screen:

        def watch(point: Point) -> None:
            seen.append(point)
            screen.refresh()

        yield {"progress": _reporter(bar, screen.refresh), "watch": watch}


def _console() -> Console:
    from rich.console import Console

    # without colour the cursor moves all the same, and nothing is bold
    return Console(stderr=True, color_system=None if os.environ.get("NO_COLOR") else "auto")


def _bar(title: str, console: Console, transient: bool) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        *([TextColumn(title)] if title else []),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=console, transient=transient)


def _reporter(bar: Progress, refresh: Callable[[], None]) -> Callable[[float, float, str], None]:
    task = bar.add_task("", total=None)
    shown = [""]

    def report(done: float, total: float, what: str) -> None:
        bar.update(task, completed=done, total=total, description=what)
        if what != shown[0]:  # every new stage is drawn at once, however short it is
            refresh()
        shown[0] = what

    return report


def _table(measured: list[Point]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    ordered = sorted(measured, key=lambda p: tuple(p.depth.values()))  # deep ones may come first
    told = points_table(ordered)
    table = Table(box=box.SIMPLE_HEAD)
    for index, head in enumerate(told.head):
        number = index in told.numbers
        table.add_column(head, justify="right" if number else "left", no_wrap=number)
    for row in told.rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    return table
