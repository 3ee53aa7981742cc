"""A figure in the characters of a terminal, where plotext is installed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deepnet_theory.report.document import Figure
from deepnet_theory.report.figures.axis import drawable, height, roomy, tick_label, ticks


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


def _labelled(values: Sequence[float]) -> tuple[list[float], list[str]]:
    return list(values), [tick_label(value) for value in values]


def _apart(values: Sequence[float]) -> list[float]:
    """The values whose labels do not run into each other on a logarithmic axis."""
    shown: list[float] = []
    for value in values:
        if not shown or math.log(value / shown[-1]) > 0.12 * math.log(values[-1] / values[0]):
            shown.append(value)
    return shown
