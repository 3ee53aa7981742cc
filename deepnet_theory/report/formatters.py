"""Results as text, as HTML, in one line and as a plot, and pieces of them for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deepnet_theory.definitions.measurement import Result
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.report import document as doc
from deepnet_theory.report import text as terminal

if TYPE_CHECKING:
    from deepnet_theory.proof.derivation import Derivation
    from deepnet_theory.report.figure import Plot

# Text, not functions: what shows one kind of result pays for no other's imports. By the name of the
# result's class: a module of this room, and its function that composes the document.
SHOWN = {
    "Audit": "audit.document",
    "Comparison": "tables.comparison",
    "Constants": "one_page.exported",
    "Derivation": "rule.document",
    "Judgement": "tables.scheme",
    "Plan": "training.plan",
    "Result": "experiment.document",
    "RoleDerivation": "tables.roles",
}


def composed(result: Any, **how: bool) -> doc.Document:
    """What a result says, before it is text or HTML; a table by role may lack its ``proof``."""
    if isinstance(result, doc.Document):
        return result
    if (name := type(result).__name__) not in SHOWN:
        return doc.Document(name, (doc.Listing(result.to_json()),))
    module, function = SHOWN[name].split(".")
    compose = getattr(import_module(f"deepnet_theory.report.{module}"), function)
    document: doc.Document = compose(result, **how)
    return document


def text(result: object) -> str:
    """All that a result says, as plain text."""
    return terminal.text(composed(result))


def html(result: object) -> str:
    """All that a result says, as HTML for a notebook."""
    from deepnet_theory.report.html import fragment

    return fragment(composed(result))


def page(result: object) -> str:
    """All that a result says, as a page of HTML that needs no other file."""
    from deepnet_theory.report.html import page as whole

    return whole(composed(result))


def line(result: Any) -> str:
    """A result as an interpreter shows it; a piece of one whole."""
    if isinstance(result, doc.Document):
        return text(result)
    name, verdict = type(result).__name__, getattr(result, "verdict", "")
    rule = f": {result.rule.told()}" if name == "Derivation" else ""
    title = composed(result).title.removeprefix(f"{name} of ")
    return f"<{name} of {title}{rule}{f'; {verdict}' * bool(verdict)}>"


def plot(result: object, rivals: Sequence[Result] = ()) -> Plot:
    """The first figure of a measured or predicted result; a notebook shows it, ``save`` writes it.

    ``rivals`` are other rules' measurements. Raises :class:`InputError` for a result without a
    figure.
    """
    from deepnet_theory.report.experiment import figures
    from deepnet_theory.report.figure import drawn

    if not isinstance(result, Result):
        raise InputError(f"a {type(result).__name__} has no plot; valid are: Result")
    drawings = figures(result, rivals)
    if not drawings:
        raise InputError("this Result has no point to draw: nothing finite was measured")
    return drawn(drawings[0])


# ---- pieces for a notebook ----


def steps(derivation: Derivation, *names: str) -> doc.Document:
    """Single steps of a derivation by their names, with the numbers that they have in the whole."""
    from deepnet_theory.report.rule import propositions

    told = propositions(derivation)
    return doc.Document("", tuple(told[name] for name in names))


def rules(derivations: Mapping[str, Derivation]) -> doc.Document:
    """The rules of several derivations, one a row."""
    rows: list[tuple[doc.Words, ...]] = [
        (name, e.part, e.sublayer, row.named, *map(doc.Formula, formulas))
        for name, d in derivations.items()
        for row in d.rows
        for e in row.rule.entries
        for formulas in [(e.alpha, e.beta, e.rate, row.rule.eta)]
    ]
    return table(" | of | sublayer | rule | α | β | κ | factor on η", rows)


def table(columns: str, rows: Iterable[tuple[doc.Words, ...]]) -> doc.Document:
    """A table of columns such as ``rule | α | β``."""
    return doc.Document("", (doc.table(columns, rows),))


def draw(
    measured: Mapping[str, Mapping[float, float]],
    x: str,
    y: str,
    slopes: Mapping[str, float] | None = None,
    title: str = "",
) -> Plot:
    """A plot of up to four series of measured points on logarithmic axes.

    ``slopes`` are predicted powers of x: a line of that slope goes through a series' first point.
    """
    from deepnet_theory.report.figure import drawn

    series = []
    for colour, (label, at) in enumerate(measured.items()):
        marks = tuple(doc.Mark(place, value, value, value) for place, value in at.items())
        slope = (slopes or {}).get(label)
        series.append(doc.sloped(label, marks, slope, colour=min(colour, 3)))
    return drawn(doc.Figure(((title, tuple(series)),), x, y))
