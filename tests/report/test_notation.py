"""Formulas on a line of a terminal."""

import pytest
import sympy as sp

from deepnet_theory.report.notation import _Line

N = sp.Symbol("N", positive=True)
ROOT = sp.sqrt


@pytest.mark.parametrize(
    ("formula", "line"),
    [
        (2 * ROOT(6) * N, "N √3 2^(3/2)"),  # primes of several factors are gathered
        (ROOT(6) * N / 2, "N √3/√2"),
        (ROOT(6) * 2 ** sp.Rational(1, 4), "√3 2^(3/4)"),
        (-N / 3, "-N/3"),
    ],
)
def test_a_product_is_one_line_in_which_each_prime_stands_once(formula, line):
    assert _Line().doprint(formula) == line
