"""Monomials, zero and sign of rational functions, and maps of matrices."""

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.proof.algebra import (
    DEPTHS,
    Activation,
    BranchMap,
    Hadamard,
    Normalise,
    Softmax,
    Transpose,
    coefficient,
    gains,
    in_symbols,
    present,
    sized,
    split,
    v,
    vanishes,
    w,
)

N, M = DEPTHS["N"], DEPTHS["M"]
a, b, c, t = sp.symbols("a b c t", positive=True)
y = sp.Symbol("y", real=True)
f = sp.Function("f", positive=True)
A, B, H, K = sp.symbols("A B H K", commutative=False)


# ---- positive monomials ----

power = st.integers(-40, 40).map(lambda k: sp.Rational(k, 16))


@settings(max_examples=30)
@given(power, power, power, power)
def test_what_is_presented_keeps_the_value(two, three, n, m):
    value = sp.Integer(2) ** two * sp.Integer(3) ** three * N**n * M**m
    for other in (present(value), in_symbols(sized(value))):
        assert sized(other) == sized(value)


def test_a_branch_has_as_many_gains_as_scaled_matrices():
    assert [gains(count) for count in (1, 2)] == [(w,), (v, w)]
    assert [str(gain) for gain in gains(3)] == ["b_1", "b_2", "b_3"]


def test_what_has_no_value_is_refused_where_it_stands():
    for expression in (1 + N, -N, 0 * N, N**N):
        with pytest.raises(ValueError, match=r"is not (a )?positive"):
            sized(expression)
    with pytest.raises(ValueError, match="different scalars"):
        coefficient(2 * Activation(A) + 3 * B)


# ---- zero and sign ----


def _larger(inner):
    pair = st.tuples(inner, inner)
    return (
        pair.map(lambda t: t[0] + t[1])
        | pair.map(lambda t: t[0] * t[1])
        | pair.map(lambda t: t[0] / (1 + t[1] ** 2))
        | inner.map(lambda t: t**2)
    )


LEAVES = st.sampled_from([a, b, y, f(1), f(2), sp.Integer(2), sp.Rational(-3, 7)])
rationals = st.recursive(LEAVES, _larger, max_leaves=6)


@settings(max_examples=30)
@given(rationals)
def test_another_form_of_the_same_function_vanishes(expression):
    for other in (sp.expand(expression), sp.together(expression), sp.cancel(expression)):
        assert vanishes(expression - other)
        assert not vanishes(expression - other - sp.Rational(1, 16))
        assert not vanishes(sp.Add(expression, 2 - other, a / b, evaluate=False))


@pytest.mark.parametrize(
    ("expression", "zero"),
    [
        (sp.sqrt(a) * sp.sqrt(a) - a, True),
        (sp.exp(a) - sp.exp(b), False),
        (sp.sqrt(a**2 + b**2) / a - b, False),
        # a denominator that is zero shows nothing
        ((a - a * b + b * (a - 1) + b) / ((a + 1) ** 2 - a**2 - 2 * a - 1), False),
    ],
)
def test_zeros_of_what_is_not_rational(expression, zero):
    assert vanishes(expression) is zero


# ---- maps of matrices ----


def test_scalars_are_split_off_and_shared_ones_found():
    for scalar, rest in ((sp.Integer(1), A), (c * y, A * B), (c, sp.Integer(1)), (-c, A + B)):
        assert split(scalar * rest) == (scalar, rest)
    assert coefficient(c * (A * B + Activation(A))) == c
    assert coefficient(sp.Integer(0)) == Activation(sp.Integer(0)) == Transpose(sp.Integer(0)) == 0
    assert Normalise(sp.Integer(0)) != 0 and Softmax(sp.Integer(0)) != 0


@settings(max_examples=20)
@given(st.sampled_from((Activation, Normalise, Softmax, BranchMap)), st.fractions("1/9", 9))
def test_a_map_scales_by_its_degree(map_, factor):
    k, degree = c * sp.Rational(factor), map_.degree
    assert map_(k * A) == (map_(k * A, evaluate=False) if degree is None else k**degree * map_(A))
    assert split(map_(y * A))[0] == 1  # y may be negative
    assert map_(A + B).args == (A + B,)


def test_transposition_and_the_entrywise_product_are_linear():
    assert Transpose(Transpose(A)) == A
    assert Transpose(y * A * B) == y * Transpose(B) * Transpose(A)
    assert Transpose(y * A + B) == y * Transpose(A) + Transpose(B)
    assert Hadamard(y * A, c * B) == c * y * Hadamard(A, B)
    assert Hadamard(0 * A, B) == Hadamard(A, 0 * B) == 0


@pytest.mark.parametrize(
    ("node", "text", "latex"),
    [
        (Transpose(A), "A.T", r"A^{\top}"),
        (Hadamard(A, B), "hadamard(A, B)", r"\left(A \odot B\right)"),
        (Softmax(A), "softmax(A)", r"\mathrm{softmax}\left(A\right)"),
    ],
)  # fmt: skip
def test_every_printer_names_the_parts_in_their_order(node, text, latex):
    assert str(node) == text and latex in sp.latex(node)
