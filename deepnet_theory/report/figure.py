"""Figures by matplotlib, as SVG that is the same in every run and follows a dark page."""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepnet_theory.definitions.files import write_text
from deepnet_theory.definitions.outcome import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from deepnet_theory.report.document import Figure, Series

COLOURS = ("#2f81f7", "#d1571b", "#9a6dd7", "#2da44e")  # the rule's own, three rivals
INK, GRID = "#010101", "#020202"  # in the SVG, the colour of the text around it
THEMES = (
    ".dnt-plot { color: #57606a } "
    "@media (prefers-color-scheme: dark) { .dnt-plot { color: #9da7b1 } }"
)
MARKERS = "osD^"
SETTINGS = {
    "svg.hashsalt": "deepnet-theory", "svg.fonttype": "none", "font.size": 9.0,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.edgecolor": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.6, "legend.frameon": False,
    "figure.facecolor": "none", "axes.facecolor": "none",
    "axes.titlesize": 9.0, "axes.titleweight": "bold", "axes.titlelocation": "left",
}  # fmt: skip
PANEL, HEIGHT, LEGEND = 2.9, 3.1, 1.7  # inches
BELOW = {"loc": "outside lower center", "ncols": 2}  # the legend of a single panel
FLAT = 7.0  # ends of a logarithmic axis differ by this factor: a flat line should look flat


@dataclass(frozen=True)
class Plot:
    """A drawn figure; a notebook shows it, :meth:`save` writes it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the SVG; raises :class:`InputError` for a name of another kind of picture."""
        if Path(path).suffix.lower() not in ("", ".svg"):
            raise InputError(f"cannot write {str(path)!r}: give a name that ends in .svg")
        write_text(Path(path), self.svg)


def drawn(figure: Figure, only: int | None = None) -> Plot:
    """The figure, or ``only`` one of its panels on the axes of all, as SVG.

    What is not finite, or not positive on a logarithmic axis, is left out; a point that was
    measured is then marked at the top.
    """
    # matplotlib takes half a second to import: only a drawing waits for it
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    panels = figure.panels if only is None else figure.panels[only : only + 1]
    row = len(panels) > 1  # of panels, with their legend beside them; below a single one
    with rc_context(SETTINGS):
        width = PANEL * len(panels) + LEGEND if row else 1.25 * PANEL
        canvas = Canvas(figsize=(width, HEIGHT), layout="constrained")
        axes = canvas.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        handles: dict[str, Any] = {}
        for one, (title, series) in zip(axes, panels, strict=True):
            one.set_title("\n".join(textwrap.wrap(title, 44)))
            panel(one, series, figure)
            for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
                handles.setdefault(textwrap.fill(label, 24), handle)
        axes[0].set_ylabel(figure.y_label if figure.linear else f"{figure.y_label} (log scale)")
        place: dict[str, Any] = {"loc": "outside right upper"} if row else BELOW
        canvas.legend(handles.values(), handles.keys(), **place)
        FigureCanvasSVG(canvas).print_svg(file := StringIO(), metadata=dict.fromkeys(
            ("Creator", "Date", "Format", "Type")))  # fmt: skip
    said = f"{figure.y_label} against {figure.x_label}"
    return Plot(_themed(file.getvalue(), f"{panels[0][0]}: {said}" if only is not None else said))


def panel(axes: Axes, series: tuple[Series, ...], figure: Figure) -> None:
    """One panel: its series, the level, and an axis that names the sizes that were measured."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    everything = [s for _, panel in figure.panels for s in panel]
    named = {m.x for s in everything for m in s.marks if not m.of_x and _has(m.x, m.y)}
    every = {x for s in everything for x, _ in s.line if x > 0 or figure.counted}
    every = every | named or {1.0}
    first, last = min(every), max(every)
    scales = {True: "linear", False: "log"}
    axes.set(xscale=scales[figure.counted], yscale=scales[figure.linear], autoscaley_on=False)
    axes.set(xlim=(first - 0.5, last + 0.5) if figure.counted else (first / 1.12, last * 1.12))
    axes.set(ylim=ends(figure))
    axes.set_xlabel(figure.x_label + " (log scale)" * (not figure.counted))
    for one in series:
        _series(axes, one, figure.linear)
    if figure.level is not None:
        axes.axhline(figure.level[0], color=INK, ls="--", lw=1, label=figure.level[1])
    for one in (s for s in series if s.measured):
        _dropped(axes, one)
    whole = MaxNLocator(integer=True)
    axes.xaxis.set_major_locator(whole if figure.counted else LogLocator(subs=(1, 3)))
    # depths or widths that were measured: each is named, few are round
    if 0 < len(named) <= 9:
        axes.set_xticks(sorted(named))
    axes.xaxis.set_major_formatter("{x:g}")
    if not figure.linear:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()


def _series(axes: Axes, one: Series, linear: bool) -> None:
    colour, opacity = COLOURS[one.colour], 0.3 + 0.7 * one.shade
    if band := [m for m in one.band if _has(m.x, m.low, m.high)]:
        x, lower, upper = zip(*((m.x, m.low, m.high) for m in band), strict=True)
        axes.fill_between(x, lower, upper, color=colour, alpha=0.2, lw=4)
    above = 3 - 0.1 * one.colour  # the rule itself lies on top
    style: dict[str, Any] = {"color": colour, "alpha": opacity, "zorder": above, "label": one.label}
    if one.line:
        line = [(x, y if linear or _has(x, y) else math.nan) for x, y in one.line]
        look: dict[str, Any] = {
            "ls": "--" if one.dashed else "-",
            "marker": "." if one.measured else "",
        }
        axes.plot(*zip(*line, strict=True), lw=1.5, **look, **style)
        del style["label"]
    for m in one.marks:
        if _has(m.x, m.y, m.low, m.high, linear=linear):
            across = axes.get_xlim()  # an interval may end far outside of what was run
            low, high = (min(max(v, across[0]), across[1]) if m.of_x else v for v in m[2:4])
            centre = m.x if m.of_x else m.y
            bar = [[max(0.0, centre - low)], [max(0.0, high - centre)]]
            axes.errorbar(m.x, m.y, fmt=MARKERS[one.colour], ms=5, elinewidth=1.2,
                          **{"xerr" if m.of_x else "yerr": bar}, **style)  # type: ignore[arg-type]  # fmt: skip
            style.pop("label", None)


def _dropped(axes: Axes, one: Series) -> None:
    """Marks at the top edge for what was measured and has no place below it."""
    top = axes.get_ylim()[1]
    above = [x for x, y in one.line if top < y < math.inf]
    diverged = [x for x, y in one.line if not math.isfinite(y)]
    for label, sign, places in (("above the axis", "^", above), ("diverged", "x", diverged)):
        if places:
            style: dict[str, Any] = {"color": COLOURS[one.colour], "label": label}
            axes.scatter(places, [top] * len(places), s=25, marker=sign, clip_on=False, **style)


def _has(x: float, *ys: float, linear: bool = False) -> bool:
    """Whether the axes can show the point; its interval may reach below zero."""
    return x > 0 and (linear or ys[0] > 0) and all(map(math.isfinite, (x, *ys)))


def ends(figure: Figure) -> tuple[float, float]:
    """The upright axis of all panels: a logarithmic one spans :data:`FLAT` at least."""
    every = [] if figure.level is None else [figure.level[0]]
    for one in (s for _, series in figure.panels for s in series):
        every += [y for _, y in one.line]
        every += [y for m in one.marks for y in (m.y, *(() if m.of_x else m[2:4]))]
        every += [y for m in one.band for y in m[2:4]]
    seen = [y for y in every if math.isfinite(y) and (figure.linear or y > 0)] or [1.0]
    low, high = min(seen), min(max(seen), figure.top)
    if figure.linear:
        room = (high - low or 1.0) / 16
        return low - room, high + room
    centre, span = math.sqrt(low * high), max(1.25**2 * high / low, FLAT)
    return centre / math.sqrt(span), centre * math.sqrt(span)


def _themed(svg: str, label: str) -> str:
    """The drawing in the colour of the text around it, without what a page has no use for."""
    start = svg.index("<svg")
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()  # type: ignore[union-attr]
    body = svg[svg.index(">", start) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r"font: (?:\w+ )?([\d.]+)px [^;\"]*", r"font: \1px system-ui, sans-serif", body)
    body = re.sub(r">\s+<", ">\n<", re.sub(r" \n", " ", body)).replace("xlink:href", "href")
    body = body.replace(INK, "currentColor").replace(GRID, "currentColor; stroke-opacity: 0.25")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dnt-plot" role="img" '
        f'aria-label="{escape(label)}" width="{width}" viewBox="0 0 {width} {height}">\n'
        f"<style>{THEMES}</style>{body.strip()}"
    )
