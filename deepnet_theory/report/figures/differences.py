"""Differences with their intervals, one a row, about a line at zero, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from deepnet_theory.report.document import Mark
from deepnet_theory.report.figures.axis import levels
from deepnet_theory.report.figures.svg import Plot, Scale, document, text

LEFT, WIDTH, TOP, ROW, BOTTOM = 112, 460, 40, 30, 44

Row = tuple[str, Mark, Sequence[float]]  # a label, mean and interval, and the single values


def differences(rows: Sequence[Row], x_label: str, sides: tuple[str, str]) -> Plot:
    """The plot: ``sides`` are what it means to lie left and right of zero.

    The ``x`` of a mark is not looked at.
    """
    ends = [0.0, *(v for _, m, values in rows for v in (m.low, m.mean, m.high, *values))]
    room = (max(ends) - min(ends) or 1.0) / 16
    bottom = TOP + ROW * len(rows)
    x = Scale(min(ends) - room, max(ends) + room, LEFT, WIDTH - 16, logarithmic=False)
    body = [f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - 16}"/>']
    for value in levels(x.low, x.high):
        body.append(f'<path class="grid" d="M{x(value):.1f} {TOP}V{bottom}"/>')
        body.append(text(f"{value:g}".replace("-", "−"), x(value), bottom + 15))
    body.append(f'<path class="level" d="M{x(0):.1f} {TOP - 8}V{bottom}"/>')
    body.append(text(f"← {sides[0]}", LEFT, TOP - 16, "start"))
    body.append(text(f"{sides[1]} →", WIDTH - 16, TOP - 16, "end"))
    body.append(text(x_label, (LEFT + WIDTH) / 2, bottom + 36))
    for index, row in enumerate(rows):
        body += _row(row, x, TOP + ROW * (index + 0.5))
    return Plot(document(body, x_label, WIDTH, bottom + BOTTOM))


def _row(row: Row, x: Scale, y: float) -> Iterator[str]:
    label, m, values = row
    told = f"{label}: {m.mean:+.3g} ({m.low:+.3g} to {m.high:+.3g})"
    yield text(label, LEFT - 8, y + 4, "end")
    yield f'<path class="interval" d="M{x(m.low):.1f} {y}H{x(m.high):.1f}"/>'
    for value in values:
        yield f'<circle class="point" opacity="0.45" cx="{x(value):.1f}" cy="{y - 8}" r="2.2"/>'
    yield f'<circle class="point" cx="{x(m.mean):.1f}" cy="{y}" r="3.4">'
    yield f"<title>{escape(told)}</title></circle>"
