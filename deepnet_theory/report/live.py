"""What a person sees while something is measured: points as they come, progress, time left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deepnet_theory.report.outline import depth_words

if TYPE_CHECKING:
    from deepnet_theory.spec.verification import Point

Report = Callable[[float, float, str], None]
Watch = Callable[["Point"], None]
AROUND = 7  # lines above and below the rows of the table: title, head, rules, progress


def watched(quiet: bool) -> bool:
    """Whether a person watches standard error and wants to."""
    return not quiet and sys.stderr.isatty()


@contextmanager
def live(title: str, quiet: bool) -> Iterator[Report | None]:
    """A progress bar on standard error; None where nobody watches or ``quiet`` is asked for."""
    if not watched(quiet):
        yield None
        return
    with _bar(title, _console(), transient=True) as bar:
        yield _reporter(bar)


@contextmanager
def live_table(title: str, quiet: bool) -> Iterator[tuple[Report | None, Watch | None]]:
    """A table that grows by a row with each point, progress and time left below it.

    Gives what receives the progress and what receives the points; both are None where nobody
    watches. The table stays where standard output, which gets the final one, is not a terminal.
    """
    if not watched(quiet):
        yield None, None
        return
    # rich is imported only where there is a terminal to draw on
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    console = _console()
    points: list[Point] = []
    bar = _bar("", console, transient=False)

    def drawn() -> Any:
        room = max(1, console.height - AROUND)
        heading = title
        if len(points) > room:
            heading += f" (the last {room} of {len(points)} points)"
        return Group(Text(heading), _table(points[-room:]) if points else "", bar)

    transient = sys.stdout.isatty()
    with Live(console=console, get_renderable=drawn, transient=transient) as screen:

        def watch(point: Point) -> None:
            points.append(point)
            screen.refresh()

        yield _reporter(bar, screen.refresh), watch


def _console() -> Any:
    from rich.console import Console

    if os.environ.get("NO_COLOR"):  # the cursor moves, nothing is coloured or bold
        return Console(stderr=True, color_system=None)
    return Console(stderr=True)


def _bar(title: str, console: Any, transient: bool) -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        *([TextColumn(title)] if title else []),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=console, transient=transient)


def _reporter(bar: Any, refresh: Callable[[], None] | None = None) -> Report:
    task = bar.add_task("", total=None)
    shown = [""]

    def report(done: float, total: float, what: str) -> None:
        bar.update(task, completed=done, total=total, description=what)
        if what != shown[0]:  # every new stage is drawn at once, however short it is
            (refresh or bar.refresh)()
        shown[0] = what

    return report


def _table(points: list[Point]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("depth")
    for head in ("mean", "95% interval", "seeds"):
        table.add_column(head, justify="right", no_wrap=True)
    if any(p.finding for p in points):
        table.add_column("finding", overflow="fold")
    for p in sorted(points, key=lambda p: tuple(p.depth.values())):  # deep ones may come first
        cells = [depth_words(p.depth), f"{p.mean:.4g}", f"{p.low:.4g} to {p.high:.4g}"]
        row = [Text(cell) for cell in (*cells, str(p.seeds), p.finding)]
        table.add_row(*row[: len(table.columns)])
    return table
