"""A figure in the characters of a terminal, where plotext is installed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deepnet_theory.report.document import Figure, Panels
from deepnet_theory.report.svg import ceiling, drawable, height, roomy, tick_label, ticks


def characters(figure: Figure) -> list[str]:
    """The lines of the plot of the own series; none without plotext or a second point."""
    try:
        import plotext
    except ImportError:
        return []
    marks = [m for series in figure.series if series.own for m in series.marks if drawable(m)]
    if len(marks) < 2:
        return []
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(64, 14)
    plotext.xscale("log")
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
    plotext.yticks(*_labelled(ticks(low, high)))
    plotext.xticks(*_labelled(_apart(xs)))
    plotext.xlabel(figure.x_label)
    plotext.title(f"{figure.y_label}: o measured, · predicted slope")
    drawn = plotext.uncolorize(plotext.build())
    return [f"  {line.rstrip()}" for line in drawn.splitlines()]


def panels(figure: Panels) -> list[str]:
    """The lines of the panels one below the other, a letter a curve; none without plotext."""
    try:
        import plotext
    except ImportError:
        return []
    lines: list[str] = []
    top = ceiling(figure)
    ys = [y for _, curves in figure.panels for c in curves for _, y in c.points if y == y]
    low = min(ys, default=0.0)
    if figure.logarithmic:  # a second picture of what a table beside it tells
        return []
    for title, curves in figure.panels:
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plotsize(64, 16)
        plotext.xscale("log")
        legend = []
        for letter, curve in zip("abcdefghijklmnopqrstuvwxyz", curves, strict=False):
            there = [(x, y) for x, y in curve.points if y <= top]
            if there:
                plotext.scatter([x for x, _ in there], [y for _, y in there], marker=letter)
                legend.append(f"{letter} {curve.label}")
        if not legend:
            continue
        xs = [x for _, curve in figure.panels for c in curve for x, _ in c.points]
        level = ""
        if figure.level is not None:
            plotext.plot([min(xs), max(xs)], [figure.level] * 2, marker="·")
            level = f", · {figure.level_label}"
        plotext.ylim(low - (top - low) / 16, top)
        plotext.xticks(*_labelled(_apart(sorted(set(xs)))))
        plotext.xlabel(figure.x_label)
        plotext.title(f"{title}: {', '.join(legend)}{level}")
        drawn = plotext.uncolorize(plotext.build())
        lines += [f"  {line.rstrip()}" for line in drawn.splitlines()]
    return lines


def _labelled(values: Sequence[float]) -> tuple[list[float], list[str]]:
    return list(values), [tick_label(value) for value in values]


def _apart(values: Sequence[float]) -> list[float]:
    """The values whose labels do not run into each other on a logarithmic axis."""
    shown: list[float] = []
    for value in values:
        if not shown or math.log(value / shown[-1]) > 0.12 * math.log(values[-1] / values[0]):
            shown.append(value)
    return shown
