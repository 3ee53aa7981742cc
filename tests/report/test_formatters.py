"""Results ask for their display by form, and the top level knows who gives it."""

import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory import Constants, export
from deepnet_theory.definitions.constants import PartConstants, SublayerConstants
from deepnet_theory.definitions.display import Displayed

from .balanced import balanced


def test_a_dataclass_leaves_its_display_to_the_formatters(monkeypatch):
    forms = {f: lambda one, f=f: f"{f} {one.value}" for f in ("text", "html", "line")}
    monkeypatch.setattr(Displayed, "formatters", lambda: SimpleNamespace(**forms))

    @dataclass(frozen=True, repr=False)
    class Number(Displayed):
        value: float

    assert str(Number(2.0)) == "text 2.0" and repr(Number(2.0)) == "line 2.0"
    assert Number(2.0)._repr_html_() == "html 2.0"


def test_the_registry_imports_no_report_before_something_is_shown():
    code = (
        "import sys, deepnet_theory, deepnet_theory.definitions.display; "
        "print(*(m for m in sys.modules if m.startswith(('deepnet_theory.report', 'sympy'))))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_constants_over_a_base_are_few_lines_and_say_how_many_notes_there_are():
    made = export("adamw", depth=100, width=512, base=128)
    said = str(made)
    assert len(said.splitlines()) <= 11
    assert "over a base of width 128" in said and "Note 1 of 3: " in said
    assert "start_head_" in made.condition and balanced(made._repr_html_())["table"] == 1


NUMBERS = st.floats(1e-3, 1e3)


@given(NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_constants_are_printed_with_their_learning_rates_multiplier(alpha, beta, kappa, by_matrix):
    gains = {"fc1": beta, "fc2": 1.0} if by_matrix else {}
    row = SublayerConstants("ffn", alpha, 1.0 if by_matrix else beta, kappa, gains)
    constants = Constants(
        "encoder", "post-ln", "layer", (PartConstants("encoder", 3, False, (row,)),),
        optimizer="adam", warning="Mind the head.",
    )  # fmt: skip
    said = str(constants)
    assert len(said.splitlines()) <= 10 and "Warning: Mind the head." in said
    of_row = next(line for line in said.splitlines() if "3 encoder" in line).split()
    read = dict(zip(("alpha", "beta", "kappa"), of_row[3:], strict=False))
    assert float(read["alpha"]) == pytest.approx(alpha, rel=1e-4)
    assert float(read["kappa"]) == pytest.approx(kappa, rel=1e-4)
    if by_matrix:
        assert read["beta"] == "-" and f"fc1 {beta:.4g}, fc2 1." in said
    else:
        assert float(read["beta"]) == pytest.approx(beta, rel=1e-4)
    assert f">{kappa:.6g}<" in constants._repr_html_()
    assert repr(constants) == "<Constants of adam, post-ln>"
