"""Expectations by index sums, which claims quote: contraction against enumeration and expansion."""

from dataclasses import replace
from itertools import product

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.proof.step import Relation, Step
from paper_checks.shared.expectation import (
    ENUMERATED,
    Bernoulli,
    Expectation,
    Gaussian,
    Index,
    IndexSum,
    Known,
    Tensor,
    White,
    constant,
    enumerate_expectation,
    expect,
)
from paper_checks.shared.steps.moments import moment_asides, route_steps
from paper_checks.shared.steps.moments.parity import even_in_columns

d, m, sigma, p = (sp.Symbol(name, positive=True) for name in ("d", "m", "sigma", "p"))
i, j = Index("i", d), Index("j", d)
k, l = Index("k", m), Index("l", m)  # noqa: E741
W = Tensor("W", (d, m), Gaussian(sigma**2))
R = Tensor("R", (m,), Bernoulli(p))
x = Tensor("x", (d,))
norm_x = sp.Symbol("norm_x", positive=True)
KNOWN = (Known.norm(norm_x, x),)
GRAM_SQUARE = (W[i, k] * W[j, k] * W[j, l] * W[i, l]).sum(i, j, k, l)
IMAGE = ((x[i] * W[i, k]).sum(i) ** 2).sum(k)
COUNT = R[k].sum(k)
WRITTEN = {step.name: step for step in (*route_steps(), *moment_asides())}


@pytest.mark.parametrize(
    ("polynomial", "value"),
    [
        (GRAM_SQUARE, sigma**4 * d * m * (d + m + 1)),
        (IMAGE**2, sigma**4 * norm_x**4 * m * (m + 2)),
        (COUNT, m * p),
        (COUNT**2, m * p * (1 - p) + m**2 * p**2),
        (COUNT**3, m * (m - 1) * (m - 2) * p**3 + 3 * m * (m - 1) * p**2 + m * p),
        (constant(3).sum(i), 3 * d),
        (W[i, k] * W[j, k], sigma**2 * sp.KroneckerDelta(*sp.symbols("i j"))),
    ],
)
def test_contraction(polynomial, value):
    assert sp.expand(expect(polynomial, KNOWN) - value) == 0


def test_the_entries_expanded_one_by_one():
    """tr((WWᵀ)²) of explicit symbols, expanded by SymPy, monomials replaced by moments."""
    for rows, columns in ((1, 1), (2, 3), (3, 2)):
        entries = sp.Matrix(rows, columns, sp.symbols(f"w:{rows * columns}"))
        expanded = sp.Poly(sp.expand(((entries * entries.T) ** 2).trace()), *entries)
        total = 0
        for powers, coefficient in expanded.terms():
            moments = [sp.factorial2(r - 1) if r % 2 == 0 else 0 for r in powers if r]
            total += coefficient * sp.Mul(*moments)
        assert expect(GRAM_SQUARE).subs({d: rows, m: columns, sigma: 1}) == total


FACTORS = st.lists(
    st.tuples(st.sampled_from([W, R]), st.sampled_from([i, j]), st.sampled_from([k, l])),
    min_size=1,
    max_size=5,
)


@given(FACTORS, FACTORS)
@settings(max_examples=40, deadline=None)
def test_contraction_agrees_with_enumeration(first, second):
    polynomial = constant(0)
    for coefficient, factors in ((2, first), (-3, second)):
        term = constant(coefficient)
        for tensor, row, column in factors:
            term = term * (R[column] if tensor is R else W[row, column])
        polynomial = polynomial + term.sum(i, j, k, l)
    value = sp.sympify(expect(polynomial))
    for rows, columns in product((1, 2, 3), (1, 2)):
        point = {d: sp.Integer(rows), m: sp.Integer(columns), sigma: sp.Rational(3, 2)}
        point[p] = sp.Rational(2, 7)
        assert value.subs(point) == enumerate_expectation(polynomial, point)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: W[k, i], "W has axes of sizes"),
        (lambda: expect((x[i] * x[j]).sum(i, j), KNOWN), "give one with Known"),
        (lambda: expect(Tensor("y", (d,), White(1))[i] ** 4), "only the mean and the variance"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        wrong()


def test_the_check_refutes_planted_errors():
    right = sigma**4 * d * m * (d + m + 1)
    node = Expectation(GRAM_SQUARE, "tr")
    step = Step("trace", node, right, Relation.EQUAL, "", checks=(ENUMERATED,))
    assert step.check() is Verdict.PROVED
    for planted in (
        -right, 2 * right, right / sigma, sigma**4 * d * m * (d + m), sigma**4 * d**2 * (d + m + 1),
        sigma**4 * d * m * (2 * m + 1),
    ):  # fmt: skip
        assert replace(step, rhs=planted).check() is Verdict.REFUTED, planted
    assert replace(step, lhs=right).check() is Verdict.REFUTED


def test_parity_sees_odd_columns():
    hidden = ((x[i] * W[i, k]).sum(i) * R[k]).sum(k)
    assert not even_in_columns(hidden, W)
    assert not even_in_columns(hidden * hidden, W)  # columns k and k' differ
    assert even_in_columns((((x[i] * W[i, k]).sum(i) * R[k]) ** 2).sum(k), W)


def test_shown_as_text_and_latex():
    node = Expectation((W[i, k] * W[i, k]).sum(i, k))
    assert str(node) == "E[Sum(W_ik*W_ik, i=1..d, k=1..m)]"
    assert sp.latex(node).startswith(r"\mathbb{E}\left[\sum_{i=1}^{d}\sum_{k=1}^{m}")
    assert "E[" in sp.pretty(node)
    assert node.free_symbols == {d, m, sigma}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_source_writes_is_proved_and_errors_in_it_are_refuted(name):
    step = WRITTEN[name]
    assert step.failures() == ()
    wrong = [2 * step.rhs, -step.rhs] if step.rhs != 0 else [sp.S.One]
    if isinstance(step.rhs, IndexSum):
        wrong = [IndexSum(step.rhs.polynomial * 2), IndexSum(step.rhs.polynomial * (-1))]
    elif step.relation is Relation.AT_MOST:
        wrong = [step.rhs / 2, -step.rhs]
    for right in wrong:
        assert replace(step, rhs=right).check() is Verdict.REFUTED, right
