"""The growth of depth expressions: exact exponents, in time that grows with the text."""

import math
import time
from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.sizes.growth import growth, leading_term
from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import DEPTH, evaluate
from deepnet_theory.symbolic.algebra.monomial import N, depth_expression


@pytest.mark.parametrize(
    ("text", "exponent"),
    [
        ("max(N, sqrt(N))", 1),
        ("min(N, sqrt(N), 7)", 0),
        ("(1 + 1/N)**200", 0),
        ("(N**2 + N)/(N + log(N))", 1),
        ("sqrt(N)*log(N)**3", Fraction(1, 2)),
        ("N/log(log(N))", 1),
        ("log(log(log(N)))", 0),
        ("abs(N - N**2)**(1/3)", Fraction(2, 3)),
        ("N - N + 3", 0),
        ("log(N) - log(N) + N", 1),
        ("max(1/N, 1/N**2)", -1),
        ("M*N**0.5 + N**0.25*M**3", Fraction(1, 2)),
        ("min(N, 1000*log(N))", 0),
        ("max(2*N, N)/N", 0),
        ("(N**4*M/27)**(1/16)", Fraction(1, 4)),
    ],
)
def test_the_growth_of_expressions_of_every_kind(text, exponent):
    assert growth(text, "N") == exponent


@pytest.mark.parametrize(
    "text", ["(N**2 + 3*N)/(2*N)", "sqrt(N + 1)*N**(1/3)", "log(N)*N", "1/(N**0.25 + 1)"]
)
def test_the_growth_is_the_limit_that_sympy_takes(text):
    limit = sp.limit(sp.log(depth_expression(text)) / sp.log(N), N, sp.oo)
    assert sp.Rational(str(growth(text, "N"))) == limit


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
def test_the_leading_term_is_what_remains_at_great_depth(text):
    found = leading_term(text, "N")
    depth = 1e60
    logs, size = depth, float(found.coefficient)
    for power in found.powers:
        size *= logs ** float(power)
        logs = math.log(logs)
    # next terms are smaller by a factor of log N at the least
    assert evaluate(DEPTH.parse(text), N=depth) / size == pytest.approx(1, abs=0.6)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1/(N - N)", "divides by zero"),
        ("(N - N)**0", "divides by zero"),
        ("sqrt(N + 1) - sqrt(N)", "leading terms in N cancel"),
        ("log(1 + 1/N)", "cancel"),
        ("sqrt(1 - N)", "no real value"),
        ("log(1/N - 1)", "no real value"),
        ("log(1/2 - 1/N)**(1/2)", "no real value"),
        ("1 - N", "not positive"),
        ("N - N", "not positive"),
    ],
)
def test_what_has_no_growth_is_one_sentence(text, why):
    with pytest.raises(InputError, match=why):
        growth(text, "N")


@pytest.mark.parametrize(
    "text",
    [
        "(1 + 1/N)**150",
        "1" + "0" * 290,
        "max(N," * 50 + "1" + ")" * 50,
        "log(" * 55 + "N" + ")" * 55,
    ],
    ids=["power", "number", "maxima", "roots"],
)
def test_the_growth_takes_bounded_time(text):
    start = time.perf_counter()
    growth(text, "N")
    assert time.perf_counter() - start < 1
