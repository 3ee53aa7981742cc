"""Results as a notebook shows them, and the pieces of them that one may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report import rule as composed
from deepnet_theory.report import width
from deepnet_theory.report.document import power
from deepnet_theory.report.html import fragment
from deepnet_theory.report.rule import owner
from deepnet_theory.report.svg import Plot, drawn, panels
from deepnet_theory.report.text import text
from deepnet_theory.report.training import losses_figure

if TYPE_CHECKING:
    from deepnet_theory.definitions.training import Training
    from deepnet_theory.proof.derivation import Derivation
    from deepnet_theory.proof.width import WidthDerivation
    from deepnet_theory.sizes.exponents import CrossTable


@dataclass(frozen=True, repr=False)
class Shown:
    """A document that a notebook shows as HTML, and elsewhere as text."""

    document: doc.Document

    def _repr_html_(self) -> str:
        return fragment(self.document)

    def __repr__(self) -> str:
        return text(self.document)


def section(derivation: Derivation, title: str) -> Shown:
    """One section of a derivation, with the numbers that its steps have in the whole.

    Raises ``ValueError`` that lists the titles where there is no such section.
    """
    parts = {s.title: s for s in composed.steps(derivation)}
    if title not in parts:
        raise ValueError(f"no section {title!r}; there are: {', '.join(parts)}")
    return Shown(doc.Document("", (), (doc.Section(title, parts[title].body),)))


def steps(derivation: Derivation, *names: str) -> Shown:
    """Single steps of a derivation by their names, with the numbers that they have in the whole."""
    return _shown(*(composed.step_of(derivation, n) for n in names))


def rules(derivations: Mapping[str, Derivation]) -> Shown:
    """The rules of several derivations, and those to train with, one a row."""
    rows: list[tuple[doc.Words, ...]] = [
        (name, owner(e.part, e.sublayer), row.named,
         *map(doc.Formula, (e.alpha, e.beta, e.rate, row.rule.eta)))
        for name, d in derivations.items()
        for row in d.rows
        for e in row.rule.entries
    ]  # fmt: skip
    return _shown(doc.table(" | of | rule | α | β | κ | factor on η", rows))


def _shown(*blocks: doc.Block) -> Shown:
    return Shown(doc.Document("", blocks))


def implied(derivations: Mapping[str, Derivation], *names: str) -> Shown:
    """What the rules of several derivations imply, one a row: consequences by their names."""
    rows: list[tuple[doc.Words, ...]] = []
    meaning: dict[str, str] = {}
    for label, d in derivations.items():
        named = {(c.part, c.sublayer, c.name): c for c in d.consequences}
        meaning |= {c.name: c.meaning for c in d.consequences if c.name in names}
        for e in d.rule.entries:
            implied = [named[e.part, e.sublayer, name] for name in names]
            remarks = ", ".join(c.remark for c in implied if c.remark)
            values = (doc.Formula(c.text) for c in implied)
            rows.append((label, owner(e.part, e.sublayer), *values, remarks))
    terms = doc.Terms(tuple((name, meaning[name]) for name in names))
    return _shown(doc.table(" | ".join(("", "of", *names, "in depth")), rows), terms)


def cross(table: CrossTable) -> Shown:
    """A cross table: the rule of each row, stepped by the optimizer of each column."""
    names = tuple(table.rules)
    rows = (
        (rule, *("; ".join(map(power, table.cell(rule, o).exponents.values())) for o in names))
        for rule in names
    )
    return _shown(doc.table(" | ".join(("rule of ↓, stepped by →", *names)), rows))


def across(derivations: Mapping[str, WidthDerivation], *roles: str) -> Shown:
    """What several derivations in width give these roles, one a row, as powers of the sizes."""
    rows = (
        (name, row.role, *(width.cell(c, getattr(row, c), None) for c in width.COLUMNS))
        for name, d in derivations.items()
        for row in map(d.table.row, roles)
    )
    return _shown(doc.table(" | ".join(("", "role", *width.COLUMNS.values())), rows))


def plot(
    measured: Mapping[str, Mapping[float, float]],
    x: str,
    y: str,
    slopes: Mapping[str, float] | None = None,
    title: str = "",
) -> Plot:
    """Up to three series of measured points on logarithmic axes, the first one as the own.

    ``slopes`` are the powers of x that are predicted of some of them: a line of that slope is
    drawn through the first point of the series.
    """
    series, lines = [], []
    for index, (label, points) in enumerate(measured.items()):
        marks = tuple(doc.Mark(place, value, value, value) for place, value in points.items())
        look = (index == 0, max(1, index))  # the first one's own, or the colour of a rival
        series.append(doc.Series(label, marks, *look))
        if slopes and label in slopes:
            words = f"{label}:\n{power(slopes[label])}"
            lines.append(doc.Slope(words, slopes[label], marks[0].x, marks[0].mean, *look))
    return drawn(doc.Figure(tuple(series), tuple(lines), x, y, title))


def losses(training: Training) -> Plot:
    """Loss against step of every run, the mean over seeds, beside the unigram entropy."""
    return panels(losses_figure(training))
