"""Pieces of results for a notebook: single steps, rules side by side, and measured numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report import rule as composed
from deepnet_theory.report import width
from deepnet_theory.report.document import power
from deepnet_theory.report.figure import Plot, drawn
from deepnet_theory.report.html import fragment
from deepnet_theory.report.rule import owner
from deepnet_theory.report.text import text

if TYPE_CHECKING:
    from deepnet_theory.proof.derivation import Derivation
    from deepnet_theory.proof.width import WidthDerivation
    from deepnet_theory.sizes.exponents import CrossTable


@dataclass(frozen=True, repr=False)
class Piece:
    """Blocks that a notebook shows as HTML, and anything else as text."""

    blocks: tuple[doc.Block, ...]

    def _repr_html_(self) -> str:
        return fragment(doc.Document("", self.blocks))

    def __repr__(self) -> str:
        return text(doc.Document("", self.blocks))


def steps(derivation: Derivation, *names: str) -> Piece:
    """Single steps of a derivation by their names, with the numbers that they have in the whole."""
    return Piece(tuple(composed.step_of(derivation, n) for n in names))


def rules(derivations: Mapping[str, Derivation]) -> Piece:
    """Both rules of several derivations, one a row."""
    rows: list[tuple[doc.Words, ...]] = [
        (name, owner(e.part, e.sublayer), row.named,
         *map(doc.Formula, (e.alpha, e.beta, e.rate, row.rule.eta)))
        for name, d in derivations.items()
        for row in d.rows
        for e in row.rule.entries
    ]  # fmt: skip
    return Piece((doc.table(" | of | rule | α | β | κ | factor on η", rows),))


def implied(derivations: Mapping[str, Derivation], *names: str) -> Piece:
    """Consequences of several derivations' rules by their names, a rule a row."""
    rows: list[tuple[doc.Words, ...]] = [
        (label, *(doc.Formula(c.text) for n in names for c in d.consequences if c.name == n))
        for label, d in derivations.items()
    ]
    return Piece((doc.table(" | ".join(("", *names)), rows),))


def cross(table: CrossTable) -> Piece:
    """A cross table: the rule of each row, stepped by the optimizer of each column."""
    names = tuple(table.rules)
    rows = (
        (rule, *("; ".join(map(power, table.cell(rule, o).exponents.values())) for o in names))
        for rule in names
    )
    return Piece((doc.table(" | ".join(("rule of ↓, stepped by →", *names)), rows),))


def across(derivations: Mapping[str, WidthDerivation], *roles: str) -> Piece:
    """What several derivations in width give these roles, one a row, as powers of the sizes."""
    rows = (
        (name, row.role, *(width.cell(c, getattr(row, c), None) for c in width.COLUMNS))
        for name, d in derivations.items()
        for row in map(d.table.row, roles)
    )
    return Piece((doc.table(" | ".join(("", "role", *width.COLUMNS.values())), rows),))


def plot(
    measured: Mapping[str, Mapping[float, float]],
    x: str,
    y: str,
    slopes: Mapping[str, float] | None = None,
    title: str = "",
) -> Plot:
    """Up to four series of measured points on logarithmic axes.

    ``slopes`` are predicted powers of x: a line of that slope goes through a series' first point.
    """
    series = []
    for colour, (label, points) in enumerate(measured.items()):
        marks = tuple(doc.Mark(place, value, value, value) for place, value in points.items())
        line: tuple[tuple[float, float], ...] = ()
        if slopes and label in slopes:
            slope, first = slopes[label], marks[0]
            line = tuple((m.x, first.y * (m.x / first.x) ** slope) for m in marks)
            label = f"{label} ({power(slope)})"
        series.append(doc.Series(label, marks, line, colour=min(colour, 3)))
    return drawn(doc.Figure(((title, tuple(series)),), x, y))
