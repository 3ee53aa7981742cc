"""What a terminal shows of a measurement: progress while it runs, a table when it is done."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deepnet_theory.report.figure import along, power

if TYPE_CHECKING:
    from deepnet_theory.spec.verification import Verification

Report = Callable[[float, float, str], None]
WIDTH = 80


@contextmanager
def live(title: str, quiet: bool) -> Iterator[Report | None]:
    """A progress bar on standard error; None where nobody watches or ``quiet`` is asked for."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    # rich is imported only where there is a terminal to draw on
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(title),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        shown = [""]

        def report(done: float, total: float, what: str) -> None:
            # every new stage is drawn at once, however short it is
            bar.update(
                task, completed=done, total=total, description=what, refresh=what != shown[0]
            )
            shown[0] = what

        yield report


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns under their heads; all but the first column stand to the right."""
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def verification_text(verification: Verification, plot: bool | None = None) -> str:
    """Points, exponents and assumptions in at most 80 columns, ending in the verdict.

    ``plot`` adds a small log–log plot where plotext is installed; by default on a terminal.
    """
    v = verification
    lines = [f"‖ΔF‖/η per token after one step, {_measured_on(v)}", ""]
    lines += table(
        ("depth", "mean", "low", "high", "seeds"),
        [
            (
                ", ".join(f"{symbol} = {n}" for symbol, n in p.depth.items()),
                f"{p.mean:.4g}",
                f"{p.low:.4g}",
                f"{p.high:.4g}",
                str(p.seeds),
            )
            for p in v.points
        ],
    )
    if plot is None:
        plot = sys.stdout.isatty()
    if plot:
        lines += _drawn(v)
    lines += ["", "Exponents (95% intervals)"]
    for e in v.exponents:
        predicted = "no prediction" if e.predicted is None else f"predicted {e.predicted:+.4g}"
        start = "" if e.fitted_from is None else f", from {e.variable} = {e.fitted_from}"
        lines.append(
            f"  in {e.variable}, {e.share}: {e.estimate:+.4f} ({e.low:+.4f} to {e.high:+.4f})"
            f"{start}; {predicted}: {e.verdict.value}"
        )
        lines += _indented(e.because)
        lines += _indented(rivals_words(e.rivals))
    if v.assumptions:
        lines += ["", "Assumptions"]
        for a in v.assumptions:
            shown = "" if a.estimate is None else f"  {a.estimate:.4g}"
            if a.low is not None and a.high is not None:
                shown += f" ({a.low:.4g} to {a.high:.4g})"
            lines.append(f"  {a.verdict.value:9}  {a.name}{shown}")
            lines += _indented(a.because)
    for warning in v.warnings:
        lines += ["", *textwrap.wrap(f"Warning: {warning}", WIDTH)]
    lines += ["", f"{v.verdict.value}  ({v.device}, {v.seconds:.1f} s)"]
    return "\n".join(lines)


def rivals_words(rivals: Sequence[tuple[str, float]]) -> str:
    """What the rules of other optimizers would have done, in words."""
    if not rivals:
        return ""
    return "other optimizers' rules here: " + ", ".join(f"{n} {power(e)}" for n, e in rivals)


def _measured_on(v: Verification) -> str:
    m = v.measure
    known = [f"{key} {m[key]}" for key in ("data", "width", "tokens", "step") if key in m]
    return ", ".join(known)


def _indented(words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent="      ", subsequent_indent="      ")


def _drawn(v: Verification) -> list[str]:
    try:
        import plotext
    except ImportError:
        return []
    variable = v.exponents[0].variable if v.exponents else "N"
    points = [p for p in along(v.points, variable) if 0 < p.mean < float("inf")]
    if len(points) < 2:
        return []
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(64, 14)
    plotext.xscale("log")
    plotext.yscale("log")
    means = [p.mean for p in points]
    plotext.scatter([p.depth[variable] for p in points], means, marker="o")
    # two octaves at least, so that a flat line looks flat
    centre = (max(means) * min(means)) ** 0.5
    ends = min(*means, centre / 2), max(*means, centre * 2)
    plotext.ylim(*(math.log10(end) for end in ends))  # of a logarithmic axis, in decades
    plotext.xlabel(f"{variable}, layers")
    plotext.title("‖ΔF‖/η per token")
    drawn = plotext.uncolorize(plotext.build())
    return ["", *(f"  {line.rstrip()}" for line in drawn.splitlines())]
