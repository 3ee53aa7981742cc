"""Results ask for their display by form, and the top level knows who gives it."""

import subprocess
import sys
from dataclasses import dataclass

from deepnet_theory.definitions.display import Displayed, register


def test_another_form_can_be_registered_and_a_dataclass_leaves_the_display_to_it(monkeypatch):
    monkeypatch.setattr("deepnet_theory.definitions.display._FORMATTERS", {})

    @dataclass(frozen=True, repr=False)
    class Number(Displayed):
        value: float

    for form in ("text", "html", "line"):
        register(form, lambda result, form=form: f"{form} {result.value}")
    assert str(Number(2.0)) == "text 2.0" and repr(Number(2.0)) == "line 2.0"
    assert Number(2.0)._repr_html_() == "html 2.0"


def test_the_registry_imports_no_report_before_something_is_shown():
    code = (
        "import sys, deepnet_theory, deepnet_theory.definitions.display; "
        "print(*(m for m in sys.modules if m.startswith(('deepnet_theory.report', 'sympy'))))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
