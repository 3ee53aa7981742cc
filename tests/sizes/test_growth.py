"""Monomials, and the growth of depth expressions."""

import math
from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from deepnet_theory.definitions.expression import DEPTH, evaluate
from deepnet_theory.definitions.outcome import InputError
from deepnet_theory.proof.algebra import N, rooted
from deepnet_theory.sizes.growth import expanded, growth
from deepnet_theory.sizes.monomial import ONE, Monomial, parse, solve


@pytest.mark.parametrize(
    ("text", "exponent"),
    [
        ("(1 + 1/N)**200", 0),
        ("max(-N, -1) + 2", 0),
        ("abs(N - N**2)**(1/3)", Fraction(2, 3)),
        ("N - N + 3", 0),
        ("log(N) - log(N) + N", 1),
        ("M*N**0.5 + N**0.25*M**3", Fraction(1, 2)),
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


@settings(max_examples=40)
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
@given(_TREES, _TREES)
def test_what_cancels_is_refused_and_what_does_not_has_the_larger_exponent(one, other):
    """Of a sum the larger term decides; of a difference too, or nothing does."""
    try:
        a, b = growth(one, "N"), growth(other, "N")
    except InputError:
        return
    assert growth(f"{one} + {other}", "N") == max(a, b)
    if a > b:
        assert growth(f"{one} - {other}", "N") == a
    with pytest.raises(InputError, match=r"cancel|not positive"):
        growth(f"({one} + 1/N**99) - {one}", "N")


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("N*(1 + N**2)**(-1/2)", "sqrt(2*N)"),
        ("3*(1 - 1/N)", "N/2 + log(N)"),
        ("sqrt(N + 1)", "N + sqrt(N)"),
        ("log(7*N + sqrt(N))/log(N) - 2/N", "N"),
        ("1 - max(1/N, 1/N + 1/N**2, -N)", "N"),
    ],
)
def test_the_next_term_is_that_of_the_values(outer, inner):
    """f(g) over its leading term is 1 + c' N^a' (log N)^b' at a great depth."""
    term, argument = (expanded(DEPTH.parse(text).root, "N") for text in (outer, inner))
    found = term.of(argument) if inner != "N" else term
    assert found.rest is not None
    with mp.workdps(1000):
        depth = mp.mpf(10) ** 200
        f, g = (sp.lambdify(N, rooted(text), "mpmath") for text in (outer, inner))

        def size(coefficient, powers):
            of_depth, of_log = (mp.mpf(p.numerator) / p.denominator for p in powers)
            return mp.mpf(float(coefficient)) * depth**of_depth * mp.log(depth) ** of_log

        over = f(g(depth)) / size(found.coefficient, found.powers) - 1
        assert float(over / size(found.rest[1], found.rest[0])) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1/(N - N)", "divides by zero"),
        ("(N - N)**0", "divides by zero"),
        ("sqrt(N + 1) - sqrt(N)", "leading terms in N cancel"),
        ("2**0.5*2**0.5 - 2 + 1/N", "cancel"),
        ("log(1 + 1/N)", "cancel"),
        ("sqrt(1 - N)", "no real value"),
        ("log(1/N - 1)", "no real value"),
        ("log(1/2 - 1/N)**(1/2)", "no real value"),
        ("1 - N", "not positive"),
    ],
)
def test_what_has_no_growth_is_one_sentence(text, why):
    with pytest.raises(InputError, match=why):
        growth(text, "N")


rationals = st.fractions(min_value=-2, max_value=2, max_denominator=4)
monomials = st.dictionaries(st.sampled_from(["2", "3", "N", "M"]), rationals).map(
    Monomial.from_powers
)


@settings(max_examples=40)
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
