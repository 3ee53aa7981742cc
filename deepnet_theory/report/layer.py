"""One layer of a model as a drawing: in lines of a terminal, and as SVG on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, starmap

from deepnet_theory.report.document import GREEK, Branch, Layer
from deepnet_theory.report.svg import WIDTH, Plot, document, text

STREAM, MARGIN, COLUMN, BOX, PITCH, TOP = 70, 140, 172, 22, 32, 34  # pixels of the SVG


def _sums(layer: Layer) -> Iterator[list[Branch]]:
    return (list(group) for _, group in groupby(layer.branches, lambda branch: branch.sum))


def lines(layer: Layer) -> list[str]:
    """The branches one below the other; each stands above its stream, and + joins one above."""
    drawn = []
    for branches in _sums(layer):
        for index, branch in enumerate(branches):
            inner = f" {' ─ '.join(starmap(_named, branch.boxes))} "
            stream = f" {_named(*branch.stream)} " if branch.stream else ""
            wide = max(len(inner), len(stream))
            above = f"x ─┬─{inner.ljust(wide, '─')}─┐"
            below = f"   └{stream.center(wide + 2, '─')}+─ {'norm' * branch.norm or 'x'}"
            drawn += [f"{'+ ' * bool(index)}{branch.kind}", above, below]
    return drawn


def _named(name: str, wanted: str) -> str:
    return f"{name}≠{wanted}" if wanted else name


def svg(layer: Layer) -> Plot:
    """The stream at the left, from the top down; what is not as wanted is filled, with both."""
    widest = max(map(len, _sums(layer)), default=1)
    above, top = list[str](), 26.0
    for branches in _sums(layer):
        drawn, top = _sum(branches, top)
        above += drawn
    # the stream is drawn first: boxes on it cover it
    body = [f'<path class="axis" d="M{STREAM} 26V{top - 8:g}"/>', *above]
    body += [text("x", STREAM, 20), text("x", STREAM, top + 4)]
    label = f"One layer: {', '.join(branch.kind for branch in layer.branches)}"
    return Plot(document(body, label, max(WIDTH, MARGIN + widest * COLUMN), top + 12))


def _sum(branches: list[Branch], top: float) -> tuple[list[str], float]:
    first = top + 16
    bottom = first + TOP + PITCH * max(len(branch.boxes) for branch in branches)
    right, body = MARGIN, list[str]()
    for branch in branches:
        right += COLUMN
        centre = right - COLUMN / 2 - 6
        body.append(f'<path class="axis" d="M{STREAM} {first:g}H{centre:g}V{bottom:g}'
                    f'H{STREAM + 8}"/>')  # fmt: skip
        body.append(text(branch.kind, centre + 8, first + 16, "start"))
        body += _boxes(branch.boxes, centre, first + TOP)
    if scaled := branches[0].stream:
        body += _boxes((scaled,), STREAM, (first + bottom - BOX) / 2, 124)
    body.append(f'<circle class="box" cx="{STREAM}" cy="{bottom:g}" r="8"/>')
    body.append(text("+", STREAM, bottom + 4))
    if branches[0].norm:
        bottom += PITCH
        body += _boxes((("norm", ""),), STREAM, bottom - BOX / 2, 52)
    return body, bottom + 22


def _boxes(
    boxes: Iterable[tuple[str, str]], centre: float, top: float, width: float = COLUMN - 20
) -> Iterator[str]:
    for index, (name, wanted) in enumerate(boxes):
        y = top + PITCH * index
        yield (
            f'<rect class="box{" wrong" * bool(wanted)}" x="{centre - width / 2:g}" y="{y:g}" '
            f'width="{width:g}" height="{BOX}" rx="4"/>'
        )
        shown = f"{name}{f' ≠ {wanted}' * bool(wanted)}"
        yield text(shown.replace("alpha", GREEK["alpha"]), centre, y + 15)
