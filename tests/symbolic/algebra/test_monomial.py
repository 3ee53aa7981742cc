"""Monomials and rational functions: exact solving, text that reads back, zero and sign."""

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.symbolic.algebra.monomial import (
    DEPTHS,
    depth_expression,
    exponent_in,
    exponents,
    is_nonnegative,
    monomial,
    plain,
    present,
    solve,
    vanishes,
)
from deepnet_theory.symbolic.algebra.nodes import Activation, Softmax, coefficient

N, M = DEPTHS["N"], DEPTHS["M"]
a, b = sp.symbols("a b", positive=True)
power = st.integers(-40, 40).map(lambda k: sp.Rational(k, 16))


@settings(max_examples=30)
@given(power, power, power, power)
def test_text_and_present_keep_the_value(two, three, n, m):
    value = sp.Integer(2) ** two * sp.Integer(3) ** three * N**n * M**m
    assert exponents(depth_expression(str(plain(value)))) == exponents(value)
    assert exponents(present(value)) == exponents(value)
    assert exponents(monomial(exponents(value))) == exponents(value)


@settings(max_examples=30)
@given(power, power, power, power, power, power)
def test_a_solution_satisfies_its_equations_and_is_unique_when_the_rank_is_full(p, q, r, s, u, v):
    equations = [(a**p * b**q, 2 * N**u), (a**r * b**s, 3 * M**v)]
    solution = solve(equations, [a, b])
    determinant = p * s - q * r
    if determinant != 0:
        assert solution is not None and set(solution) == {a, b}
        for left, right in equations:
            assert not exponents((left / right).subs(solution))
    elif solution is not None:
        assert set(solution) < {a, b}


def test_a_contradiction_and_an_undetermined_unknown_have_no_value():
    assert solve([(a * b, N), (a * b, 2 * N)], [a, b]) is None
    solution = solve([(a, N)], [a, b])
    assert solution == {a: N}


def test_the_published_radicals_print_as_one_root():
    assert str(plain((N**4 * M / 27) ** sp.Rational(1, 16))) == "(N**4*M/27)**(1/16)"
    assert (str(plain(sp.Integer(1))), str(plain(1 / (2 * N)))) == ("1", "1/(2*N)")


A, u = sp.symbols("A u", commutative=False)


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        *((lambda e=e: exponents(e), ValueError, "not a positive monomial")
          for e in (1 + N, -N, 0 * N, N**N)),
        (lambda: exponent_in(sp.exp(N), N), ValueError, "no growth exponent in N"),
        (lambda: coefficient(2 * Activation(u) + 3 * A), ValueError, "different scalars"),
        (lambda: Softmax(a * A).diff(a).diff(a), NotImplementedError, "second differentials"),
    ],
)  # fmt: skip
def test_what_has_no_value_is_refused_where_it_stands(asked, error, says):
    with pytest.raises(error, match=says):
        asked()


y = sp.Symbol("y", real=True)
f = sp.Function("f", positive=True)
LEAVES = st.sampled_from([a, b, y, f(1), f(2), sp.Integer(2), sp.Rational(-3, 7)])


def _larger(inner):
    pair = st.tuples(inner, inner)
    return (
        pair.map(lambda t: t[0] + t[1])
        | pair.map(lambda t: t[0] * t[1])
        | pair.map(lambda t: t[0] / (1 + t[1] ** 2))
        | inner.map(lambda t: t**2)
    )


rationals = st.recursive(LEAVES, _larger, max_leaves=6)


@settings(max_examples=30)
@given(rationals)
def test_another_form_of_the_same_function_vanishes(expression):
    for other in (sp.expand(expression), sp.together(expression), sp.cancel(expression)):
        assert vanishes(expression - other)
        assert not vanishes(expression - other - sp.Rational(1, 16))
        assert not vanishes(sp.Add(expression, 2 - other, a / b, evaluate=False))


@settings(max_examples=30)
@given(rationals)
def test_what_is_called_nonnegative_has_no_negative_value(expression):
    if is_nonnegative(expression):
        for number in (-2, sp.Rational(-1, 3), 0, 5):
            at = {a: sp.Rational(2, 3), b: 4, y: number, f(1): sp.Rational(1, 9), f(2): 3}
            assert expression.subs(at) >= 0


@pytest.mark.parametrize(
    ("expression", "zero", "nonnegative"),
    [
        (sp.sqrt(a) * sp.sqrt(a) - a, True, True),
        ((a + b) ** 2 - a**2 - 2 * a * b - b**2, True, True),
        ((a + b) ** 2 - a**2 - b**2, False, True),
        ((a - b) ** 2, False, True),
        (y**3, False, False),
        (a - b, False, False),
        (sp.exp(a) - sp.exp(b), False, False),
        (sp.sqrt(a**2 + b**2) / a - b, False, False),
        (a / (b - a), False, False),
    ],
)
def test_signs_and_roots(expression, zero, nonnegative):
    assert vanishes(expression) is zero
    assert is_nonnegative(expression) is nonnegative


def test_a_denominator_that_is_zero_shows_nothing():
    nowhere = (a - a * b + b * (a - 1) + b) / ((a + 1) ** 2 - a**2 - 2 * a - 1)
    assert not vanishes(nowhere) and not is_nonnegative(nowhere)


def test_what_does_not_occur_has_the_exponent_zero():
    assert exponent_in(M**2, N) == 0 and exponent_in(M**2 * N, M) == 2
    assert exponent_in(N + sp.sqrt(N), N) == 1
