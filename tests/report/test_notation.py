"""Formulas in a line of letters, as a terminal shows them."""

import pytest
import sympy as sp

from deepnet_theory.report.notation import lettered, shown

N, beta, alpha = sp.symbols("N beta alpha", positive=True)


@pytest.mark.parametrize(
    ("formula", "line"),
    [
        (2 * sp.sqrt(6) * N, "2√6 N"),
        (N ** sp.Rational(3, 2) * beta**2 / alpha, "N^(3/2) β²/α"),
        (1 / sp.sqrt(2 * N), "√2/(2√N)"),
        (-N / 3, "-N/3"),
        (sp.exp(-N), "exp(-N)"),
        (sp.Derivative(sp.Function("f")(beta), beta), "Derivative(f(β), β)"),
    ],
)
def test_a_formula_is_one_line_of_letters(formula, line):
    assert shown(formula) == line


def test_names_are_set_in_letters():
    assert [lettered(n) for n in ("alpha_e", "c_1", "norm_dF", "x")] == ["α_e", "c₁", "‖ΔF‖", "x"]
