"""Results as a notebook shows them, and the pieces of them that one may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepnet_theory.report import document as doc
from deepnet_theory.report import rule as composed
from deepnet_theory.report import width
from deepnet_theory.report.html import fragment
from deepnet_theory.report.numbers import power
from deepnet_theory.report.panels import differences, panels
from deepnet_theory.report.rule import owner
from deepnet_theory.report.svg import Plot, drawn
from deepnet_theory.report.text import text
from deepnet_theory.report.training import losses_figure

if TYPE_CHECKING:
    from deepnet_theory.sizes.exponents import CrossTable
    from deepnet_theory.spec.results.training import Training
    from deepnet_theory.symbolic.derivation import Derivation
    from deepnet_theory.symbolic.width import WidthDerivation


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
    found = {s.title: s for s in composed.steps(derivation)}
    if title not in found:
        raise ValueError(f"no section {title!r}; there are: {', '.join(found)}")
    return Shown(doc.Document("", (), (doc.Section(title, found[title].body),)))


def steps(derivation: Derivation, *names: str) -> Shown:
    """Single steps of a derivation by their names, with the numbers that they have in the whole."""
    return Shown(doc.Document("", tuple(composed.step_of(derivation, n) for n in names)))


def rules(derivations: Mapping[str, Derivation]) -> Shown:
    """The rules of several derivations, and those to train with, one a row."""
    rows = []
    for name, d in derivations.items():
        for row in d.rows:
            for e in row.rule.entries:
                formulas = (e.alpha, e.beta, e.rate, row.rule.eta)
                of = (name, owner(e.part, e.sublayer), row.named)
                rows.append(doc.cells(*of, *map(doc.Formula, formulas)))
    head = ("", "of", "rule", "α", "β", "κ", "factor on η")
    return Shown(doc.Document("", (doc.Table(head, tuple(rows)),)))


def implied(derivations: Mapping[str, Derivation], *names: str) -> Shown:
    """What the rules of several derivations imply, one a row: consequences by their names."""
    rows: list[tuple[doc.Words, ...]] = []
    meaning: dict[str, str] = {}
    for label, d in derivations.items():
        found = {(c.part, c.sublayer, c.name): c for c in d.consequences}
        meaning |= {c.name: c.meaning for c in d.consequences if c.name in names}
        for e in d.rule.entries:
            own = [found[e.part, e.sublayer, name] for name in names]
            told = ", ".join(c.remark for c in own if c.remark)
            values = (doc.Formula(c.text) for c in own)
            rows.append(doc.cells(label, owner(e.part, e.sublayer), *values, told))
    head = ("", "of", *names, "in depth")
    terms = doc.Terms(tuple((name, meaning[name]) for name in names))
    return Shown(doc.Document("", (doc.Table(head, tuple(rows)), terms)))


def cross(found: CrossTable) -> Shown:
    """A cross table: the rule of each row, stepped by the optimizer of each column."""
    names = tuple(found.rules)
    rows = tuple(
        (rule, *("; ".join(map(power, found.cell(rule, o).exponents.values())) for o in names))
        for rule in names
    )
    return Shown(doc.Document("", (doc.Table(("rule of ↓, stepped by →", *names), rows),)))


def across(derivations: Mapping[str, WidthDerivation], *roles: str) -> Shown:
    """What several derivations in width give these roles, one a row, as powers of the sizes."""
    rows = []
    for name, d in derivations.items():
        for row in map(d.table.row, roles):
            sizes = (width.cell(column, getattr(row, column), None) for column in width.COLUMNS)
            rows.append(doc.cells(name, row.role, *sizes))
    head = ("", "role", *width.COLUMNS.values())
    return Shown(doc.Document("", (doc.Table(head, tuple(rows)),)))


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
        marks = tuple(doc.Mark(at, value, value, value) for at, value in points.items())
        own, colour = index == 0, max(1, index)
        series.append(doc.Series(label, marks, own, colour))
        if slopes and label in slopes:
            told = f"{label}:\n{power(slopes[label])}"
            first = marks[0]
            lines.append(doc.Slope(told, slopes[label], first.x, first.mean, own, colour))
    return drawn(doc.Figure(tuple(series), tuple(lines), x, y, title))


def losses(training: Training) -> Plot:
    """Loss against step of every run, the mean over seeds, beside the unigram entropy."""
    return panels(losses_figure(training))


def compared(training: Training) -> Plot:
    """The rule's held-out loss minus every rival's, seed by seed, with the interval over seeds."""
    own, *rivals = training.runs
    rows = []
    for c, rival in zip(training.comparisons, rivals, strict=True):
        if c.difference is None or c.low is None or c.high is None:
            continue
        pairs = zip(own.held_out_by_seed, rival.held_out_by_seed, strict=True)
        mark = doc.Mark(0.0, c.difference, c.low, c.high)
        rows.append((c.rival, mark, [a - b for a, b in pairs]))
    label = "held-out loss of the rule minus the rival's, nats a byte"
    return differences(rows, label, ("the rule is better", "the rival is better"))
