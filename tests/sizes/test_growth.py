"""Monomials, the growth of depth expressions, and sums of sizes over layers."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp

from deepnet_theory.definitions.expression import DEPTH, evaluate
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.proof.algebra import N, rooted
from deepnet_theory.sizes.growth import growth, size_of
from deepnet_theory.sizes.monomial import ONE, Monomial, parse, solve


@pytest.mark.parametrize(
    ("text", "exponent"),
    [
        ("(1 + 1/N)**200", 0),
        ("sqrt(N + 1) - sqrt(N)", Fraction(-1, 2)),
        ("log(1 + 1/N)*((1 + 1/N)**(1/3) - 1)", -2),
        ("abs(N - N**2)**(1/3)", Fraction(2, 3)),
        ("N - N + 3", 0),
        ("log(N) - log(N) + N", 1),
        ("M*N**0.5 + N**0.25*M**3", Fraction(1, 2)),
        ("(N**4*M/27)**(1/16)", Fraction(1, 4)),
    ],
)
def test_the_growth_of_expressions_of_every_kind(text, exponent):
    assert growth(text, "N") == exponent


_TREES = st.recursive(
    st.sampled_from(["N", "1", "2", "7/3", "log(N)", "sqrt(N)", "1/N"]),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+*/"), inner).map(lambda t: f"({t[0]}{t[1]}{t[2]})")
        | st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(
            "{0[0]}({0[1]},{0[2]})".format
        )
        | inner.map("sqrt({})".format)
    ),
    max_leaves=6,
)


@given(_TREES)
def test_the_exponent_is_what_remains_at_great_depth(text):
    try:
        found = growth(text, "N")
    except InputError:
        return
    with mp.workdps(120):  # a power of 2^(10^90) needs its logarithm to more than 90 digits
        depth = mp.ldexp(1, 10**90)
        value = sp.lambdify(N, rooted(text), "mpmath")(depth)
        assert float(mp.log(value) / mp.log(depth)) == pytest.approx(float(found), abs=1e-6)


@settings(max_examples=40)
@given(_TREES, _TREES, st.integers(1, 3))
def test_what_cancels_leaves_the_next_term_or_a_refusal(large, small, power):
    """(a + b)^n - a^n grows as a^(n-1) b where b is smaller than a by a power of N."""
    try:
        assume(growth(large, "N") > growth(small, "N"))
        grown = growth(f"(({large}) + ({small}))**{power} - ({large})**{power}", "N")
    except InputError:
        return
    assert grown == growth(f"({large})**{power - 1}*({small})", "N")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1/(N - N)", "divides by zero"),
        ("(N - N)**0", "divides by zero"),
        ("(1 + 1/N)**5 - 1 - 5/N - 10/N**2 - 10/N**3 - 5/N**4", "leading terms in N cancel"),
        ("log(log(N))", "cancel"),
        ("sqrt(1 - N)", "no real value"),
        ("log(1/N - 1)", "no real value"),
        ("log(N - N)", "no real value"),
        ("log(1/2 - 1/N)**(1/2)", "no real value"),
        ("1 - N", "not positive"),
        ("N - N", "not positive"),
    ],
)
def test_what_has_no_growth_is_one_sentence(text, why):
    with pytest.raises(InputError, match=why):
        growth(text, "N")


TEXTS = ("l**(-1/2)", "sqrt(N)/l", "l", "l/sqrt(N)", "l**(-3/2)*N")


@pytest.mark.parametrize("text", TEXTS)
def test_the_exponent_of_a_sum_is_the_sum_s_slope(text):
    """A logarithm beside a power bends the slope of two depths by 1/log N."""
    import sympy as sp

    symbols = {name: sp.Symbol(name, positive=True) for name in "Nl"}
    value = sp.lambdify(tuple(symbols.values()), sp.sympify(text, symbols), "numpy")
    sums = [np.sum(value(float(n), np.arange(1.0, n + 1))) for n in (2**14, 2**20)]
    slope = np.log(sums[1] / sums[0]) / np.log(2**6)
    assert size_of(text, "N").summed().at(Fraction(1)) == pytest.approx(slope, abs=0.09)


rationals = st.fractions(min_value=-2, max_value=2, max_denominator=4)
monomials = st.dictionaries(st.sampled_from(["2", "3", "N", "M"]), rationals).map(
    Monomial.from_powers
)


@given(monomials, monomials, rationals)
def test_the_algebra_is_that_of_the_values_and_text_reads_back(a, b, power):
    depths = {"N": 5.0, "M": 11.0}
    one, other = a.at(**depths), b.at(**depths)
    assert math.isclose((a * b).at(**depths), one * other, rel_tol=1e-9)
    assert math.isclose((a / b).at(**depths), one / other, rel_tol=1e-9)
    assert math.isclose((a**power).at(**depths), one ** float(power), rel_tol=1e-9)
    assert a * b / b == a and a**0 == ONE
    put = (Monomial.of("x") ** power * a).put({"x": b})
    assert put == b**power * a
    assert parse(str(a)) == a
    assert math.isclose(one, evaluate(DEPTH.parse(str(a)), N=5, M=11), rel_tol=1e-9)


@pytest.mark.parametrize("text", ["N + 1", "2 - N", "log(N)", "-N", "0"])
def test_what_is_no_monomial_is_refused(text):
    with pytest.raises(ValueError):
        parse(text)


def test_contradiction_and_freedom_are_told_apart():
    alpha, beta, depth = map(Monomial.of, ("alpha", "beta", "N"))
    assert solve([alpha * depth, alpha], ["alpha"]) is None
    free = solve([alpha * beta * depth], ["alpha", "beta"])
    assert free is not None and free.free == ("alpha", "beta")
    half = solve([alpha * depth], ["alpha", "beta"])
    assert half is not None and half.free == ("beta",)
    assert half.values == {"alpha": depth**-1}
