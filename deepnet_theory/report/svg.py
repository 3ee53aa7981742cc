"""Pictures as SVG: points and predicted slopes on two logarithms, curves in panels, differences."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from deepnet_theory.definitions.files import write_text
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.report import document as doc

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
    ends = [height(s, end) for s in slopes for end in (first, last)]
    shown = [m for s in series for m in (*s.marks, *s.band)]
    values = [v for m in shown for v in (m.low, m.mean, m.high) if v > 0] + ends
    y = Scale(*roomy(min(values) / 1.25, max(values) * 1.25), HEIGHT - BOTTOM, TOP)
    marked = ticks(x.low, x.high) if figure.named else xs
    grid = {value: tick_label(value) for value in ticks(y.low, y.high)}
    names = (figure.x_label, figure.y_label)
    body = [*axes(x, y, names, {value: f"{value:g}" for value in marked}, grid)]
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
    # names that are led to stand in one line, and the picture widens for it
    longest = max((len(s.label) for s in bare), default=0) if figure.named else 0
    if key := "; ".join(_key(figure, series)):
        body.append(text(key, 12, HEIGHT + 8, "start"))
    return Plot(document(body, label, max(WIDTH, WIDTH - RIGHT + 8 * longest + 16), HEIGHT + 18))


def _key(figure: doc.Figure, series: Sequence[doc.Series]) -> Iterator[str]:
    """What the bars, shaded bands and lines of a plot mean, for those that it has."""
    if any(m.low < m.high for s in series for m in s.marks):
        yield "bars: 95 % over seeds"
    if any(s.band for s in series):
        yield "shaded: predicted"
    if figure.slopes:
        yield "line: as predicted" if figure.named else "lines: slope as labelled"


def document(body: Sequence[str], label: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """An SVG picture of these elements, with a label for readers who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dnt-plot" role="img" '
        f'aria-label="{escape(label)}" width="{width * 560 / WIDTH:.0f}" '
        f'viewBox="0 0 {width} {height}">'
        f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n" + "\n".join(body) + "\n</svg>"
    )


def _line(slope: doc.Slope, x: Scale, y: Scale, first: float, last: float) -> str:
    (y1, y2) = (y(height(slope, end)) for end in (first, last))
    kind = "own" if slope.own else _coloured("rival", slope.colour)
    return f'<path class="{kind}" d="M{x(first):.1f} {y1:.1f}L{x(last):.1f} {y2:.1f}"/>'


def _band(series: doc.Series, x: Scale, y: Scale) -> str:
    there = [f"{x(m.x):.1f} {y(max(m.low, y.low)):.1f}" for m in series.band]
    back = [f"{x(m.x):.1f} {y(m.high):.1f}" for m in reversed(series.band)]
    kind = "band" if series.own else f"band {_coloured('other', series.colour, '-band')}"
    return f'<path class="{kind}" d="M{"L".join([*there, *back])}Z"/>'


def _point(mark: doc.Mark, x: Scale, y: Scale, series: doc.Series) -> str:
    across, middle = x(mark.x), y(mark.mean)
    low = max(mark.low, y.low)
    title = (
        f"<title>{escape(series.label)} at {mark.x:g}: {mark.mean:.4g} "
        f"({mark.low:.4g} to {mark.high:.4g})</title>"
    )
    if series.own:
        interval = "interval"
        shape = (
            f'<circle class="point" cx="{across:.1f}" cy="{middle:.1f}" r="3.4">{title}</circle>'
        )
    else:  # distinct without colour too: squares, diamonds and triangles
        interval = _coloured("other", series.colour, "-interval")
        kind = _coloured("other", series.colour)
        outline = ("m-2.7 -2.7h5.4v5.4h-5.4z", "m0 -3.8l3.8 3.8l-3.8 3.8l-3.8 -3.8z",
                   "m0 -3.8l3.8 6.6h-7.6z")[series.colour - 1]  # fmt: skip
        shape = f'<path class="{kind}" d="M{across:.1f} {middle:.1f}{outline}">{title}</path>'
    return f'<path class="{interval}" d="M{across:.1f} {y(low):.1f}V{y(mark.high):.1f}"/>{shape}'


def _coloured(kind: str, colour: int, end: str = "") -> str:
    """The classes of a rival: a second or third colour replaces the first."""
    return f"{kind}{end}" if colour == 1 else f"{kind}{end} {kind}-{colour}{end}"


def _labels(slopes: Sequence[doc.Slope], x: Scale, y: Scale, last: float, led: bool) -> list[str]:
    """Labels at the right ends of the lines, pushed apart where they would overlap.

    Where they are ``led`` to, a thin line goes from each line's first point to its label.
    """
    blocks = []
    for s in slopes:
        wrapped = [words for line in s.label.split("\n") for words in textwrap.wrap(line, LABEL)]
        blocks.append((y(height(s, last)), s, [s.label] if led else wrapped))
    blocks.sort(key=lambda block: (block[0], -block[1].exponent))  # from the top down
    lines = []
    free = float(TOP)
    rest = sum(len(words) for _, _, words in blocks) * LINE_HEIGHT
    for end_height, slope, words in blocks:
        top = max(free, min(end_height - LINE_HEIGHT / 2, HEIGHT - BOTTOM - rest))
        kind = "own-label" if slope.own else _coloured("rival", slope.colour, "-label")
        if led:
            end = f"H{x.end:.1f}L{x.end + 6:.1f} {top + LINE_HEIGHT / 2:.1f}"
            lines.append(f'<path class="lead" d="M{x(slope.x):.1f} {end_height:.1f}{end}"/>')
        for index, line in enumerate(words):
            lines.append(
                f'<text class="{kind}" x="{WIDTH - RIGHT + 6 + 2 * led}" '
                f'y="{top + LINE_HEIGHT * (index + 0.8):.1f}">{escape(line)}</text>'
            )
        free = top + LINE_HEIGHT * len(words) + 2 * (not led)
        rest -= LINE_HEIGHT * len(words)
    return lines


def axes(
    x: Scale, y: Scale, names: tuple[str, str], xs: Mapping[float, str], ys: Mapping[float, str],
    half: int = 12, left: bool = True,
) -> Iterator[str]:  # fmt: skip
    """Two axes with a grid line and a label at each of some values, and what they are of.

    A label of the lower axis is ``half`` as wide and stands where it runs into no other; what is
    at the ``left`` of the upright axis is left out where another picture stands there.
    """
    bottom, right, free = y.start, x.end, 0.0
    yield f'<path class="axis" d="M{x.start:g} {y.end:g}V{bottom:g}H{right:g}"/>'
    for value, label in xs.items():
        across = x(value)
        yield f'<path class="grid" d="M{across:.1f} {y.end:g}V{bottom:g}"/>'
        if across - half >= free:
            yield text(label, across, bottom + 15)
            free = across + half
    for value, label in ys.items():
        upward = y(value)
        yield f'<path class="grid" d="M{x.start:g} {upward:.1f}H{right:g}"/>'
        if left:
            yield text(label, x.start - 6, upward + 4, "end")
    yield text(names[0], (x.start + right) / 2, bottom + 36)
    if left:
        name = text(names[1], 0, 0)
        yield f'<g transform="translate(13 {(y.end + bottom) / 2}) rotate(-90)">{name}</g>'


def text(words: str, x: float, y: float, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


# axes: what can stand on a logarithmic one, how far it reaches, and round numbers


def drawable(mark: doc.Mark) -> bool:
    """Whether a logarithmic plot can show the point."""
    # an interval may reach below 0, where a logarithmic axis ends; its point is drawn even so
    finite = all(map(math.isfinite, (mark.x, mark.mean, mark.low, mark.high)))
    return finite and mark.x > 0 and mark.mean > 0


def height(slope: doc.Slope, x: float) -> float:
    """Where a line of predicted slope stands at ``x``."""
    return slope.y * math.pow(x / slope.x, slope.exponent)


def roomy(low: float, high: float) -> tuple[float, float]:
    """Ends at least a factor of 7 apart: a flat line should look flat, not like enlarged noise.

    So far apart they have two round numbers between them.
    """
    centre = math.sqrt(low * high)
    return min(low, centre / math.sqrt(7)), max(high, centre * math.sqrt(7))


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends of a logarithmic axis, at most nine.

    Ones, twos and fives, ones alone on a long axis; the levels of one that is too short for two.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    values = [float(f"{step}e{decade}") for decade in decades for step in steps]
    inside = [v for v in values if low <= v <= high]
    if len(inside) < 2:
        return levels(low, high)
    return inside[:: -(-len(inside) // 9)]


def levels(low: float, high: float) -> list[float]:
    """Round numbers, at most eight, between the ends of a linear axis; of no length, its one end.

    They are the multiples of the least step 1, 2 or 5 times a power of ten that are no more.
    """
    if high <= low:
        return [low]
    decade = math.floor(math.log10((high - low) / 8))
    steps = (float(f"{step}e{decade}") for step in (1, 2, 5, 10))
    step = next(s for s in steps if (high - low) / s <= 8)
    first = math.floor(low / step)
    values = (float(f"{i * step:.12g}") for i in range(first, first + 10))
    # an end that is a multiple up to rounding counts as one
    return [v for v in values if low + 1e-9 * step < v <= high]


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tick_label(value: float) -> str:
    """The label of a tick: 0.02, 1000, 10⁵, 2·10⁻⁴, 1.25·10⁻⁴."""
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return power if float(mantissa) == 1 else f"{float(mantissa):g}·{power}"


def ceiling(figure: doc.Panels) -> float:
    """Where panels end above: all of a curve, or as far beyond the level as the best one is."""
    ys = [y for _, curves in figure.panels for c in curves for _, y in c.points if y == y]
    if figure.level is None:
        return max(ys, default=1.0) + (max(ys, default=1.0) - min(ys, default=1.0)) / 20
    if not ys:
        return figure.level
    room = max(abs(figure.level - min(ys)), 0.05 * abs(figure.level))
    return min(max(*ys, figure.level), max(min(ys), figure.level) + room) + room / 20


# curves in panels side by side, and differences about zero

PANEL, PANEL_HEIGHT = 230, 300  # of one of several
HALF = 19  # of a label of the lower axis
FIRST, BETWEEN, LEGEND = 52, 16, 96  # what is left of the first panel, between them, and behind
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
    width = FIRST + len(figure.panels) * (PANEL + BETWEEN) + legend
    low, high = min(xs) / 1.15, max(xs) * 1.15
    across = {value: tick_label(value) for value in ticks(low, high)}
    names = (figure.x_label, figure.y_label)
    body: list[str] = []
    for index, (title, curves) in enumerate(figure.panels):
        start = FIRST + index * (PANEL + BETWEEN)
        x = Scale(low, high, start, start + PANEL)
        y = Scale(floor, top, PANEL_HEIGHT - BOTTOM, TOP, logarithmic=figure.logarithmic)
        body += axes(x, y, names, across, upright, HALF, left=index == 0)
        if figure.level is not None:
            level = y(figure.level)
            body.append(f'<path class="level" d="M{x.start:.1f} {level:.1f}H{x.end:.1f}"/>')
        body.append(f'<text class="title" x="{start}" y="18">{escape(title)}</text>')
        clip = f"panel-{index}"
        body.append(
            f'<clipPath id="{clip}"><rect x="{start}" y="{TOP}" width="{PANEL}" '
            f'height="{PANEL_HEIGHT - TOP - BOTTOM}"/></clipPath><g clip-path="url(#{clip})">'
        )
        for curve in curves:
            body += _curve(curve, x, y)
        body.append("</g>")
    body += _legend(longest, figure, width - legend)
    return Plot(document(body, label, width, PANEL_HEIGHT))


def _has(figure: doc.Panels, point: tuple[float, float]) -> bool:
    return math.isfinite(point[1]) and (point[1] > 0 or not figure.logarithmic)


def _curve(curve: doc.Curve, x: Scale, y: Scale) -> Iterator[str]:
    path, pen = "", "M"
    for place, value in curve.points:
        # a run that diverged: the line is broken
        if not math.isfinite(value) or (value <= 0 and y.logarithmic):
            pen = "M"
            continue
        path += f"{pen}{x(place):.1f} {y(value):.1f}"
        pen = "L"
    kind, opacity = _look(curve)
    yield f'<path class="{kind}" {opacity} d="{path}"/>'
    best = curve.best
    if best is None or not (best.x > 0 and all(map(math.isfinite, (best.x, best.mean)))):
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
