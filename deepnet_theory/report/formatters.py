"""Results as text, as HTML and in one line: the formatters that the top level registers."""

from __future__ import annotations

from importlib import import_module

from deepnet_theory.report import text as terminal
from deepnet_theory.report.document import composed

# Text, not functions: a line of one kind pays for no other's imports.
LINES = {  # by the name of the result's class: a module, and a function of it
    "Derivation": ("rule", "one_line"),
    "ModelMeasurement": ("measurement", "model_lines"),
    "Verification": ("measurement", "three_lines"),
    "WidthDerivation": ("width", "one_line"),
}


def text(result: object) -> str:
    """All that a result says, as plain text."""
    return terminal.text(composed(result))


def html(result: object) -> str:
    """All that a result says, as HTML for a notebook."""
    from deepnet_theory.report.html import fragment

    return fragment(composed(result))


def line(result: object) -> str:
    """A result as an interpreter shows it."""
    module, function = LINES[type(result).__name__]
    formatted: str = getattr(import_module(f"deepnet_theory.report.{module}"), function)(result)
    return formatted
