"""Pictures with a linear axis as SVG: curves in panels side by side, and differences about zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import isfinite

from deepnet_theory.report import document as doc
from deepnet_theory.report.svg import (
    Plot,
    Scale,
    axes,
    ceiling,
    document,
    levels,
    roomy,
    text,
    tick_label,
    ticks,
)

PANEL, HEIGHT = 230, 300
HALF = 19  # of a label of the lower axis
LEFT, TOP, BOTTOM, BETWEEN, LEGEND = 52, 30, 44, 16, 96
SIDE, ACROSS, HEAD, ROW = 112, 460, 40, 30  # of differences


def panels(figure: doc.Panels) -> Plot:
    """The plot; a curve that rises above the panels is cut where it leaves them."""
    label = f"{figure.y_label} against {figure.x_label}"
    points = [p for _, curves in figure.panels for c in curves for p in c.points if _has(figure, p)]
    if not points:
        return Plot(document(['<text x="20" y="40">no finite loss was measured</text>'], label))
    xs = [x for x, _ in points]
    least = min(y for _, y in points)
    if figure.logarithmic:
        floor, top = roomy(least / 1.25, max(y for _, y in points) * 1.25)
        upright = {value: tick_label(value) for value in ticks(floor, top)}
    else:
        top, least = ceiling(figure), min(least, least if figure.level is None else figure.level)
        floor = least - ((top - least) / 16 or 1.0)
        upright = {value: f"{value:g}" for value in levels(floor, top)}
    longest = max((curves for _, curves in figure.panels), key=len)
    legend = max(LEGEND, *(27 + 6 * len(c.label) for c in longest))
    width = LEFT + len(figure.panels) * (PANEL + BETWEEN) + legend
    low, high = min(xs) / 1.15, max(xs) * 1.15
    across = {value: tick_label(value) for value in ticks(low, high)}
    names = (figure.x_label, figure.y_label)
    body: list[str] = []
    for index, (title, curves) in enumerate(figure.panels):
        start = LEFT + index * (PANEL + BETWEEN)
        x = Scale(low, high, start, start + PANEL)
        y = Scale(floor, top, HEIGHT - BOTTOM, TOP, logarithmic=figure.logarithmic)
        body += axes(x, y, names, across, upright, HALF, left=index == 0)
        if figure.level is not None:
            level = y(figure.level)
            body.append(f'<path class="level" d="M{x.start:.1f} {level:.1f}H{x.end:.1f}"/>')
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


def _has(figure: doc.Panels, point: tuple[float, float]) -> bool:
    return isfinite(point[1]) and (point[1] > 0 or not figure.logarithmic)


def _curve(curve: doc.Curve, x: Scale, y: Scale) -> Iterator[str]:
    path, pen = "", "M"
    for place, value in curve.points:
        # a run that diverged: the line is broken
        if not isfinite(value) or (value <= 0 and y.logarithmic):
            pen = "M"
            continue
        path += f"{pen}{x(place):.1f} {y(value):.1f}"
        pen = "L"
    kind, opacity = _look(curve)
    yield f'<path class="{kind}" {opacity} d="{path}"/>'
    best = curve.best
    if best is None or not (best.x > 0 and all(map(isfinite, (best.x, best.mean)))):
        return
    title = f"{curve.label}: best at {best.x:.3g} ({best.low:.3g} to {best.high:.3g})"
    ends = [min(max(end, x.low), x.high) for end in (best.low, best.high)]
    height = y(best.mean)
    yield (
        f'<path class="interval" {opacity} d="M{x(ends[0]):.1f} {height:.1f}H{x(ends[1]):.1f}"/>'
        f'<circle class="point" {opacity} cx="{x(best.x):.1f}" cy="{height:.1f}" r="3.2">'
        f"<title>{escape(title)}</title></circle>"
    )


def _look(curve: doc.Curve) -> tuple[str, str]:
    kind = f"curve curve-{curve.colour}" if curve.colour else "curve"
    return kind, f'opacity="{0.3 + 0.7 * curve.shade:.2f}"'


def _legend(curves: tuple[doc.Curve, ...], figure: doc.Panels, left: float) -> Iterator[str]:
    for index, curve in enumerate(curves):
        y = TOP + 16 * index + 6
        kind, opacity = _look(curve)
        yield f'<path class="{kind}" {opacity} d="M{left:.1f} {y:.1f}h16"/>'
        yield text(curve.label, left + 21, y + 4, "start")
    if figure.level is None:
        return
    y = TOP + 16 * len(curves) + 10
    yield f'<path class="level" d="M{left:.1f} {y:.1f}h16"/>'
    for line, words in enumerate(figure.level_label.split(" ", 1)):
        yield text(words, left + 21, y + 4 + 13 * line, "start")


Row = tuple[str, doc.Mark, Sequence[float]]  # a label, mean and interval, and the single values


def differences(rows: Sequence[Row], x_label: str, sides: tuple[str, str]) -> Plot:
    """The plot: ``sides`` are what it means to lie left and right of zero.

    The ``x`` of a mark is not looked at.
    """
    ends = [0.0, *(v for _, m, values in rows for v in (m.low, m.mean, m.high, *values))]
    room = (max(ends) - min(ends) or 1.0) / 16
    bottom = HEAD + ROW * len(rows)
    x = Scale(min(ends) - room, max(ends) + room, SIDE, ACROSS - 16, logarithmic=False)
    body = [f'<path class="axis" d="M{SIDE} {bottom}H{ACROSS - 16}"/>']
    for value in levels(x.low, x.high):
        body.append(f'<path class="grid" d="M{x(value):.1f} {HEAD}V{bottom}"/>')
        body.append(text(f"{value:g}".replace("-", "−"), x(value), bottom + 15))
    body.append(f'<path class="level" d="M{x(0):.1f} {HEAD - 8}V{bottom}"/>')
    body.append(text(f"← {sides[0]}", SIDE, HEAD - 16, "start"))
    body.append(text(f"{sides[1]} →", ACROSS - 16, HEAD - 16, "end"))
    body.append(text(x_label, (SIDE + ACROSS) / 2, bottom + 36))
    for index, row in enumerate(rows):
        body += _row(row, x, HEAD + ROW * (index + 0.5))
    return Plot(document(body, x_label, ACROSS, bottom + BOTTOM))


def _row(row: Row, x: Scale, y: float) -> Iterator[str]:
    label, m, values = row
    title = f"{label}: {m.mean:+.3g} ({m.low:+.3g} to {m.high:+.3g})"
    yield text(label, SIDE - 8, y + 4, "end")
    yield f'<path class="interval" d="M{x(m.low):.1f} {y}H{x(m.high):.1f}"/>'
    for value in values:
        yield f'<circle class="point" opacity="0.45" cx="{x(value):.1f}" cy="{y - 8}" r="2.2"/>'
    yield f'<circle class="point" cx="{x(m.mean):.1f}" cy="{y}" r="3.4">'
    yield f"<title>{escape(title)}</title></circle>"
