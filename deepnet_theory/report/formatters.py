"""Results as text, as HTML, in one line and as a plot: what the top level registers."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deepnet_theory.definitions.outcome import InputError

if TYPE_CHECKING:
    from deepnet_theory.report.document import Document
    from deepnet_theory.report.figure import Plot

# Text, not functions: what shows one kind of result pays for no other's imports. By the kind of the
# result: a module of this room, and its functions that give document, line and figures.
SHOWN = {
    "Audit": ("audit", "document", "", ""),
    "Comparison": ("rule", "comparison", "", ""),
    "Derivation": ("rule", "document", "one_line", ""),
    "Judgement": ("scheme", "document", "", ""),
    "model": ("experiment", "model_document", "model_lines", "model_figures"),
    "Training": ("training", "document", "", "figures"),
    "Transfer": ("training", "transfer_document", "transfer_line", "transfer_figures"),
    "prediction": ("experiment", "prediction_document", "", "prediction_figures"),
    "verification": ("experiment", "document", "three_lines", "figures"),
    "WidthDerivation": ("width", "document", "one_line", ""),
}
DOCUMENT, LINE, FIGURES = 1, 2, 3


def kind(result: object) -> str:
    """The name of a result's class, or of the schema of an experiment's."""
    name = type(result).__name__
    return str(vars(result)["schema"]).split("/")[1] if name == "Result" else name


def _asked(result: object, what: int, *arguments: Any, **more: Any) -> Any:
    name = kind(result)
    function = SHOWN[name][what]
    if not function:
        raise InputError(f"a {name} has no plot")
    module = import_module(f"deepnet_theory.report.{SHOWN[name][0]}")
    return getattr(module, function)(result, *arguments, **more)


def composed(result: object) -> Document:
    """What a result says, before it is text or HTML."""
    document: Document = _asked(result, DOCUMENT)
    return document


def text(result: object) -> str:
    """All that a result says, as plain text; its fields, if nothing here shows its kind."""
    if kind(result) not in SHOWN:
        return repr(result)
    from deepnet_theory.report import text as terminal

    return terminal.text(composed(result))


def html(result: object) -> str:
    """All that a result says, as HTML for a notebook."""
    if kind(result) not in SHOWN:
        return f"<pre>{escape(repr(result))}</pre>"
    from deepnet_theory.report.html import fragment

    return fragment(composed(result))


def page(result: object) -> str:
    """All that a result says, as a page of HTML that needs no other file."""
    from deepnet_theory.report.html import page as whole

    return whole(composed(result))


def line(result: object) -> str:
    """A result as an interpreter shows it."""
    shown: str = _asked(result, LINE)
    return shown


def plot(result: object, **asked: Any) -> Plot:
    """The first figure of a measured or predicted result; a notebook shows it, ``save`` writes it.

    ``variable``, the depth to draw against, and ``rivals``, other rules' measurements, apply to a
    verification. Raises :class:`InputError` for a result without a figure.
    """
    from deepnet_theory.report.figure import drawn

    name = kind(result)
    if name not in SHOWN:
        drawable = ", ".join(kind for kind, shown in SHOWN.items() if shown[FIGURES])
        raise InputError(f"a {name} cannot be plotted; valid are: {drawable}")
    drawings = _asked(result, FIGURES, **asked)
    if not drawings:
        raise InputError(f"this {name} has no point to draw: nothing finite was measured")
    return drawn(drawings[0])
