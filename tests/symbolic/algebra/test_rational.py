"""Zero and sign of rational functions: what the ring says is what the trees say."""

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.symbolic.algebra.monomial import is_nonnegative, vanishes

a, b = sp.symbols("a b", positive=True)
y = sp.Symbol("y", real=True)
f = sp.Function("f", positive=True)
LEAVES = st.sampled_from([a, b, y, f(1), f(2), sp.Integer(2), sp.Rational(-3, 7)])


def _grow(inner):
    pair = st.tuples(inner, inner)
    return (
        pair.map(lambda t: t[0] + t[1])
        | pair.map(lambda t: t[0] * t[1])
        | pair.map(lambda t: t[0] / (1 + t[1] ** 2))
        | inner.map(lambda t: t**2)
    )


expressions = st.recursive(LEAVES, _grow, max_leaves=6)


@settings(max_examples=30)
@given(expressions)
def test_another_form_of_the_same_function_vanishes(expression):
    for other in (sp.expand(expression), sp.together(expression), sp.cancel(expression)):
        assert vanishes(expression - other)
        assert not vanishes(expression - other - sp.Rational(1, 16))
        assert not vanishes(sp.Add(expression, 2 - other, a / b, evaluate=False))


@settings(max_examples=30)
@given(expressions)
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
