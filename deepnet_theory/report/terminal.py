"""A figure in the characters of a terminal, where plotext is installed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from deepnet_theory.report.document import Figure, Panels
from deepnet_theory.report.svg import ceiling, drawable, height, roomy, tick_label, ticks


def characters(figure: Figure) -> list[str]:
    """The lines of the plot of the own series; none without plotext or a second point."""
    marks = [m for series in figure.series if series.own for m in series.marks if drawable(m)]
    plotext = _begun(14)
    if plotext is None or len(marks) < 2:
        return []
    plotext.yscale("log")
    xs, means = [m.x for m in marks], [m.mean for m in marks]
    values = list(means)
    for slope in figure.slopes:
        if slope.own:
            ends = [height(slope, x) for x in (xs[0], xs[-1])]
            values += ends
            plotext.plot([xs[0], xs[-1]], ends, marker="·")
    plotext.scatter(xs, means, marker="o")
    low, high = roomy(min(values), max(values))
    plotext.ylim(math.log10(low), math.log10(high))  # of a logarithmic axis, in decades
    at = ticks(low, high)
    plotext.yticks(at, list(map(tick_label, at)))
    return _ended(plotext, xs, figure.x_label, f"{figure.y_label}: o measured, · predicted slope")


def panels(figure: Panels) -> list[str]:
    """The lines of the panels one below the other, a letter a curve; none without plotext."""
    if figure.logarithmic:  # a second picture of what a table beside it tells
        return []
    lines: list[str] = []
    top = ceiling(figure)
    points = [p for _, curves in figure.panels for c in curves for p in c.points]
    xs, low = sorted({x for x, _ in points}), min((y for _, y in points if y == y), default=0.0)
    for title, curves in figure.panels:
        plotext = _begun(16)
        legend = []
        for letter, curve in zip("abcdefghijklmnopqrstuvwxyz", curves, strict=False):
            there = [(x, y) for x, y in curve.points if y <= top]
            if there and plotext is not None:
                plotext.scatter([x for x, _ in there], [y for _, y in there], marker=letter)
                legend.append(f"{letter} {curve.label}")
        if plotext is None or not legend:
            continue
        level = ""
        if figure.level is not None:
            plotext.plot([xs[0], xs[-1]], [figure.level] * 2, marker="·")
            level = f", · {figure.level_label}"
        plotext.ylim(low - (top - low) / 16, top)
        lines += _ended(plotext, xs, figure.x_label, f"{title}: {', '.join(legend)}{level}")
    return lines


def _begun(rows: int) -> Any:
    """plotext with an empty picture over a logarithmic axis, or None where there is none."""
    try:
        import plotext
    except ImportError:
        return None
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(64, rows)
    plotext.xscale("log")
    return plotext


def _ended(plotext: Any, xs: Sequence[float], x_label: str, title: str) -> list[str]:
    at = _apart(xs)
    plotext.xticks(at, list(map(tick_label, at)))
    plotext.xlabel(x_label)
    plotext.title(title)
    return [f"  {line.rstrip()}" for line in plotext.uncolorize(plotext.build()).splitlines()]


def _apart(values: Sequence[float]) -> list[float]:
    """The values whose labels do not run into each other on a logarithmic axis."""
    shown: list[float] = []
    for value in values:
        if not shown or math.log(value / shown[-1]) > 0.12 * math.log(values[-1] / values[0]):
            shown.append(value)
    return shown
