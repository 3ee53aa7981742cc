"""Curves in panels side by side as SVG: a line a curve, the best point of each marked."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from deepnet_theory.report import document as doc
from deepnet_theory.report.figures.axis import ceiling, drawable, levels, tick_label, ticks
from deepnet_theory.report.figures.svg import Plot, Scale, document, text

PANEL, HEIGHT = 230, 300
HALF = 19  # of a label of the lower axis
LEFT, TOP, BOTTOM, BETWEEN, LEGEND = 52, 30, 44, 16, 96


def panels(figure: doc.Panels) -> Plot:
    """The plot; a curve that rises above the panels is cut where it leaves them."""
    label = f"{figure.y_label} against {figure.x_label}"
    points = [p for _, curves in figure.panels for c in curves for p in c.points if p[1] == p[1]]
    if not points:
        return Plot(document(['<text x="20" y="40">no finite loss was measured</text>'], label))
    xs = [x for x, _ in points]
    top, least = ceiling(figure), min(y for _, y in points)
    room = (top - least) / 16
    longest = max((curves for _, curves in figure.panels), key=len)
    legend = max(LEGEND, *(27 + 6 * len(c.label) for c in longest))
    width = LEFT + len(figure.panels) * (PANEL + BETWEEN) + legend
    body: list[str] = []
    for index, (title, curves) in enumerate(figure.panels):
        start = LEFT + index * (PANEL + BETWEEN)
        x = Scale(min(xs) / 1.15, max(xs) * 1.15, start, start + PANEL)
        y = Scale(least - room, top, HEIGHT - BOTTOM, TOP, logarithmic=False)
        body += _axes(figure, x, y, first=index == 0)
        body.append(f'<text class="title" x="{start}" y="18">{escape(title)}</text>')
        clip = f"panel-{index}"
        body.append(
            f'<clipPath id="{clip}"><rect x="{start}" y="{TOP}" width="{PANEL}" '
            f'height="{HEIGHT - TOP - BOTTOM}"/></clipPath><g clip-path="url(#{clip})">'
        )
        for curve in curves:
            body += _curve(curve, x, y)
        body.append("</g>")
    body += _legend(longest, figure, width - legend)
    return Plot(document(body, label, width, HEIGHT))


def _curve(curve: doc.Curve, x: Scale, y: Scale) -> Iterator[str]:
    path, pen = "", "M"
    for at, value in curve.points:
        if value != value:  # a run that diverged: the line is broken
            pen = "M"
            continue
        path += f"{pen}{x(at):.1f} {y(value):.1f}"
        pen = "L"
    opacity = f'opacity="{_opacity(curve):.2f}"'
    yield f'<path class="{_kind(curve)}" {opacity} d="{path}"/>'
    best = curve.best
    if best is None or not drawable(best):
        return
    told = f"{curve.label}: best at {best.x:.3g} ({best.low:.3g} to {best.high:.3g})"
    ends = [min(max(end, x.low), x.high) for end in (best.low, best.high)]
    height = y(best.mean)
    yield (
        f'<path class="interval" {opacity} d="M{x(ends[0]):.1f} {height:.1f}H{x(ends[1]):.1f}"/>'
        f'<circle class="point" {opacity} cx="{x(best.x):.1f}" cy="{height:.1f}" r="3.2">'
        f"<title>{escape(told)}</title></circle>"
    )


def _kind(curve: doc.Curve) -> str:
    return f"curve curve-{curve.colour}" if curve.colour else "curve"


def _opacity(curve: doc.Curve) -> float:
    return 0.3 + 0.7 * curve.shade


def _axes(figure: doc.Panels, x: Scale, y: Scale, first: bool) -> Iterator[str]:
    yield f'<path class="axis" d="M{x.start:.1f} {TOP}V{y.start:.1f}H{x.end:.1f}"/>'
    free = 0.0
    for value in ticks(x.low, x.high):
        yield f'<path class="grid" d="M{x(value):.1f} {TOP}V{y.start:.1f}"/>'
        if x(value) - HALF >= free:  # labels do not run into each other
            yield text(tick_label(value), x(value), y.start + 15)
            free = x(value) + HALF
    for value in levels(y.low, y.high):
        yield f'<path class="grid" d="M{x.start:.1f} {y(value):.1f}H{x.end:.1f}"/>'
        if first:
            yield text(f"{value:g}", x.start - 6, y(value) + 4, "end")
    yield f'<path class="level" d="M{x.start:.1f} {y(figure.level):.1f}H{x.end:.1f}"/>'
    yield text(figure.x_label, (x.start + x.end) / 2, HEIGHT - 8)
    if first:
        across = text(figure.y_label, 0, 0)
        middle = (TOP + y.start) / 2
        yield f'<g transform="translate(13 {middle:.1f}) rotate(-90)">{across}</g>'


def _legend(curves: tuple[doc.Curve, ...], figure: doc.Panels, left: float) -> Iterator[str]:
    for index, curve in enumerate(curves):
        at = TOP + 16 * index + 6
        path = f'opacity="{_opacity(curve):.2f}" d="M{left:.1f} {at:.1f}h16"'
        yield f'<path class="{_kind(curve)}" {path}/>'
        yield text(curve.label, left + 21, at + 4, "start")
    at = TOP + 16 * len(curves) + 10
    yield f'<path class="level" d="M{left:.1f} {at:.1f}h16"/>'
    for line, words in enumerate(figure.level_label.split(" ", 1)):
        yield text(words, left + 21, at + 4 + 13 * line, "start")
