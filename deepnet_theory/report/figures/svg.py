"""A log–log plot as SVG: measured points with intervals, and lines of predicted slope."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from deepnet_theory.report import document as doc
from deepnet_theory.report.figures.axis import drawable, height, roomy, tick_label, ticks
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.files import write_text

WIDTH, HEIGHT = 460, 346
LEFT, RIGHT, TOP, BOTTOM = 58, 122, 30, 44  # margins; the lines are labelled at the right
LINE_HEIGHT = 13
LABEL, TITLE = 15, 44  # characters of a line that fit at a phone's size of letters

_STYLE = Path(__file__).parent / "plot.css"


@dataclass(frozen=True)
class Plot:
    """A drawn figure; a notebook shows it, :meth:`save` writes it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the SVG; raises :class:`InputError` for a name of another kind of picture."""
        if Path(path).suffix.lower() not in ("", ".svg"):
            raise InputError(
                f"cannot write {str(path)!r}: the plot is an SVG picture; "
                "give a name that ends in .svg"
            )
        write_text(Path(path), self.svg)


@dataclass(frozen=True)
class Scale:
    """An axis: data from ``low`` to ``high`` onto pixels ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = True

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def drawn(figure: doc.Figure) -> Plot:
    """The plot; points that are not positive and finite are left out.

    A line is labelled at its right end, a series without a line at its last point; of a ``named``
    figure every point is, along a line that leads there.
    """
    series = [
        replace(s, marks=tuple(filter(drawable, s.marks)), band=tuple(filter(drawable, s.band)))
        for s in figure.series
    ]
    slopes = figure.slopes
    marks = [m for s in series for m in s.marks]
    label = f"{figure.y_label} against {figure.x_label}"
    if not marks:
        return Plot(document(['<text x="20" y="40">no finite point was measured</text>'], label))
    xs = sorted({m.x for m in marks})
    first, last = xs[0], xs[-1] if len(xs) > 1 else xs[0] * 2
    x = Scale(first / 1.12, last * 1.12, LEFT, WIDTH - RIGHT)
    ends = [height(s, at) for s in slopes for at in (first, last)]
    shown = [m for s in series for m in (*s.marks, *s.band)]
    values = [v for m in shown for v in (m.low, m.mean, m.high) if v > 0] + ends
    y = Scale(*roomy(min(values) / 1.25, max(values) * 1.25), HEIGHT - BOTTOM, TOP)
    at = ticks(x.low, x.high) if figure.named else xs
    body = [*_axes(x, y, at, figure.x_label, figure.y_label)]
    body += [_band(s, x, y) for s in series if s.band]
    body += [_line(s, x, y, first, last) for s in slopes]
    for s in sorted(series, key=lambda s: s.own):  # the rule itself lies on top
        body += [_point(m, x, y, s) for m in s.marks]
    lined = {(s.own, s.own or s.colour) for s in slopes}
    bare = [
        doc.Slope(s.label, 0.0, s.marks[-1].x, s.marks[-1].mean, s.own, s.colour)
        for s in series
        if s.marks and (figure.named or (s.own, s.own or s.colour) not in lined)
    ]
    body += _labels([*(s for s in slopes if s.label), *bare], x, y, last, figure.named)
    for index, line in enumerate(textwrap.wrap(figure.title, TITLE)[:2]):
        body.append(f'<text class="title" x="{LEFT}" y="{12 + 13 * index}">{escape(line)}</text>')
    # names that are led to stand in one line, for which the picture widens
    longest = max((len(s.label) for s in bare), default=0) if figure.named else 0
    return Plot(document(body, label, max(WIDTH, WIDTH - RIGHT + 8 * longest + 16)))


def document(body: Sequence[str], label: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """An SVG picture of these elements, told by its label where it is not seen."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dnt-plot" role="img" '
        f'aria-label="{escape(label)}" width="{width * 560 / WIDTH:.0f}" '
        f'viewBox="0 0 {width} {height}">'
        f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n" + "\n".join(body) + "\n</svg>"
    )


def _line(slope: doc.Slope, x: Scale, y: Scale, first: float, last: float) -> str:
    (y1, y2) = (y(height(slope, at)) for at in (first, last))
    kind = "own" if slope.own else _coloured("rival", slope.colour)
    return f'<path class="{kind}" d="M{x(first):.1f} {y1:.1f}L{x(last):.1f} {y2:.1f}"/>'


def _band(series: doc.Series, x: Scale, y: Scale) -> str:
    there = [f"{x(m.x):.1f} {y(max(m.low, y.low)):.1f}" for m in series.band]
    back = [f"{x(m.x):.1f} {y(m.high):.1f}" for m in reversed(series.band)]
    kind = "band" if series.own else f"band {_coloured('other', series.colour, '-band')}"
    return f'<path class="{kind}" d="M{"L".join([*there, *back])}Z"/>'


def _point(mark: doc.Mark, x: Scale, y: Scale, series: doc.Series) -> str:
    at = x(mark.x)
    low = max(mark.low, y.low)
    middle = y(mark.mean)
    told = (
        f"<title>{escape(series.label)} at {mark.x:g}: {mark.mean:.4g} "
        f"({mark.low:.4g} to {mark.high:.4g})</title>"
    )
    if series.own:
        interval = "interval"
        shape = f'<circle class="point" cx="{at:.1f}" cy="{middle:.1f}" r="3.4">{told}</circle>'
    else:  # told apart without colour too: squares, diamonds and triangles
        interval = _coloured("other", series.colour, "-interval")
        kind = _coloured("other", series.colour)
        outline = ("m-2.7 -2.7h5.4v5.4h-5.4z", "m0 -3.8l3.8 3.8l-3.8 3.8l-3.8 -3.8z",
                   "m0 -3.8l3.8 6.6h-7.6z")[series.colour - 1]  # fmt: skip
        shape = f'<path class="{kind}" d="M{at:.1f} {middle:.1f}{outline}">{told}</path>'
    return f'<path class="{interval}" d="M{at:.1f} {y(low):.1f}V{y(mark.high):.1f}"/>{shape}'


def _coloured(kind: str, colour: int, end: str = "") -> str:
    """The classes of a rival: a second or third colour replaces the first."""
    return f"{kind}{end}" if colour == 1 else f"{kind}{end} {kind}-{colour}{end}"


def _labels(slopes: Sequence[doc.Slope], x: Scale, y: Scale, last: float, led: bool) -> list[str]:
    """Labels at the right ends of the lines, pushed apart where they would overlap.

    Where they are ``led`` to, a thin line goes from each line's first point to its label.
    """
    blocks = [(y(height(s, last)), s, [s.label] if led else _wrapped(s.label)) for s in slopes]
    blocks.sort(key=lambda block: (block[0], -block[1].exponent))  # from the top down
    lines = []
    free = float(TOP)
    rest = sum(len(words) for _, _, words in blocks) * LINE_HEIGHT
    for at, slope, words in blocks:
        top = max(free, min(at - LINE_HEIGHT / 2, HEIGHT - BOTTOM - rest))
        kind = "own-label" if slope.own else _coloured("rival", slope.colour, "-label")
        if led:
            end = f"H{x.end:.1f}L{x.end + 6:.1f} {top + LINE_HEIGHT / 2:.1f}"
            lines.append(f'<path class="lead" d="M{x(slope.x):.1f} {at:.1f}{end}"/>')
        for index, line in enumerate(words):
            lines.append(
                f'<text class="{kind}" x="{WIDTH - RIGHT + 6 + 2 * led}" '
                f'y="{top + LINE_HEIGHT * (index + 0.8):.1f}">{escape(line)}</text>'
            )
        free = top + LINE_HEIGHT * len(words) + 2 * (not led)
        rest -= LINE_HEIGHT * len(words)
    return lines


def _wrapped(label: str) -> list[str]:
    return [words for line in label.split("\n") for words in textwrap.wrap(line, LABEL)]


def _axes(x: Scale, y: Scale, xs: Sequence[float], x_label: str, y_label: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    lines = [f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>']
    free = 0.0
    for value in xs:
        at = x(value)
        lines.append(f'<path class="grid" d="M{at:.1f} {TOP}V{bottom}"/>')
        if at - 11 >= free:
            lines.append(text(f"{value:g}", at, bottom + 15))
            free = at + 13
    for value in ticks(y.low, y.high):
        at = y(value)
        lines.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>')
        lines.append(text(tick_label(value), LEFT - 6, at + 4, "end"))
    middle = (TOP + bottom) / 2
    across = text(y_label, 0, 0)
    return [
        *lines,
        text(x_label, (LEFT + right) / 2, HEIGHT - 8),
        f'<g transform="translate(13 {middle}) rotate(-90)">{across}</g>',
    ]


def text(words: str, x: float, y: float, anchor: str = "middle") -> str:
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
