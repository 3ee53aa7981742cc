"""One layer of a model as a drawing: in lines of a terminal, and as SVG on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from deepnet_theory.report.document import Branch, Layer
from deepnet_theory.report.svg import WIDTH, Plot, document, text

MARGIN, COLUMN, BOX, PITCH, TOP = 84, 172, 22, 32, 34  # pixels of the SVG


def _sums(layer: Layer) -> Iterator[list[Branch]]:
    """The branches of one residual sum together."""
    return (list(own) for _, own in groupby(layer.branches, lambda branch: branch.sum))


def lines(layer: Layer) -> list[str]:
    """The branches one below the other; each stands above its stream, and + joins one above."""
    found = []
    for branches in _sums(layer):
        for index, branch in enumerate(branches):
            boxes = (name + (f"≠{wanted}" if wanted else "") for name, wanted in branch.boxes)
            above = f"x ─┬─ {' ─ '.join(boxes)} ─┐"
            stream = f" × {branch.stream} " if branch.stream else ""
            below = f"   └{stream.center(len(above) - 5, '─')}+─ {'norm' * branch.norm or 'x'}"
            found += [f"{'+ ' * bool(index)}{branch.kind}", above, below]
    return found


def svg(layer: Layer) -> Plot:
    """The stream at the left, from the top down; what is not as wanted is filled, with both."""
    widest = max((len(own) for own in _sums(layer)), default=1)
    body, top = [text("x", MARGIN / 2, 20)], 26.0
    for branches in _sums(layer):
        drawn, top = _sum(branches, top)
        body += drawn
    body.append(f'<path class="axis" d="M{MARGIN / 2} 26V{top - 8:g}"/>')
    body.append(text("x", MARGIN / 2, top + 4))
    label = f"One layer: {', '.join(branch.kind for branch in layer.branches)}"
    return Plot(document(body, label, max(WIDTH, MARGIN + widest * COLUMN), top + 12))


def _sum(branches: list[Branch], top: float) -> tuple[list[str], float]:
    """The branches of one sum side by side, and where the stream goes on."""
    first = top + 16
    bottom = first + TOP + PITCH * max(len(branch.boxes) for branch in branches)
    stream, right, body = MARGIN / 2, MARGIN, list[str]()
    for branch in branches:
        right += COLUMN
        centre = right - COLUMN / 2 - 6
        body.append(f'<path class="axis" d="M{stream:g} {first:g}H{centre:g}V{bottom:g}'
                    f'H{stream + 8:g}"/>')  # fmt: skip
        body.append(text(branch.kind, centre + 8, first + 16, "start"))
        body += _boxes(branch.boxes, centre, first + TOP)
    if scaled := branches[0].stream:
        body.append(text(f"× {scaled}", stream - 6, (first + bottom) / 2, "end"))
    body.append(f'<circle class="box" cx="{stream:g}" cy="{bottom:g}" r="8"/>')
    body.append(text("+", stream, bottom + 4))
    if branches[0].norm:
        bottom += PITCH
        body += _boxes((("norm", ""),), stream, bottom - BOX / 2, 52)
    return body, bottom + 22


def _boxes(
    boxes: Iterable[tuple[str, str]], centre: float, top: float, width: float = COLUMN - 20
) -> Iterator[str]:
    for index, (name, wanted) in enumerate(boxes):
        at = top + PITCH * index
        yield (
            f'<rect class="box{" wrong" * bool(wanted)}" x="{centre - width / 2:g}" y="{at:g}" '
            f'width="{width:g}" height="{BOX}" rx="4"/>'
        )
        yield text(f"{name}{f' ≠ {wanted}' * bool(wanted)}", centre, at + 15)
