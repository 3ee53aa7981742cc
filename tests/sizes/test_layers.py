"""Exponents of sizes and of sums over layers, against the sums themselves."""

from fractions import Fraction

import numpy as np
import pytest

from deepnet_theory.sizes.layers import Power, size_of
from deepnet_theory.spec.errors import Refusal

TEXTS = (
    "l**(-1/2)",
    "sqrt(N)/l",
    "N/(N + l**2)",
    "max(1, l/sqrt(N))",
    "min(l, N/l)",
    "(1 + l)/(N + 1)",
    "l**(-3/2)*N",
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_exponent_of_a_sum_is_the_sum_s_slope(text):
    """A logarithm beside a power bends the slope of two depths by 1/log N."""
    import sympy as sp

    symbols = {name: sp.Symbol(name, positive=True) for name in "Nl"}
    value = sp.lambdify(tuple(symbols.values()), sp.sympify(text, symbols), "numpy")
    sums = [np.sum(value(float(n), np.arange(1.0, n + 1))) for n in (2**14, 2**20)]
    slope = np.log(sums[1] / sums[0]) / np.log(2**6)
    assert size_of(text, "N").total == pytest.approx(slope, abs=0.09)


@pytest.mark.parametrize("text", [*TEXTS, "max(N/l**3, l)", "max(1/l, l/N)", "min(N/l, l**2/N)"])
def test_a_sum_up_to_a_layer_has_the_size_of_its_largest_term(text):
    """N^t terms of size N^e have the sum N^(e + t); places by sixteenths hold every bend."""
    size = size_of(text, "N")
    largest = []
    for place in (Fraction(k, 16) for k in range(17)):
        largest = [*largest, size.at(place) + place]
        assert size.summed().at(place) == max(largest)
    assert size.total == max(largest) and size.last == size.at(Fraction(1))


def test_a_size_says_where_it_is_what_and_sums_from_where_it_is_largest():
    size = Power.of(1, -2)
    assert str(size) == "N^(1) at l = N^(0), N^(-1) at l = N^(1)"
    with pytest.raises(ValueError, match="2 is not from 0 to 1"):
        size.at(Fraction(2))
    bent = size_of("max(1, l/sqrt(N))", "N")
    assert [bent.at(Fraction(t, 4)) for t in (0, 2, 3, 4)] == [0, 0, Fraction(1, 4), Fraction(1, 2)]
    # of l**-1 the sum is a logarithm
    totals = [Power.of(index=i).total for i in (-2, -1, Fraction(-1, 2))]
    assert [*totals, size.total] == [0, 0, Fraction(1, 2), 1]
    assert Power.of().summed().at(Fraction(1, 2)) == Fraction(1, 2)
    assert Power.of(index=1).cut(Fraction(1, 2)).largest == Fraction(1, 2)
    with pytest.raises(Refusal, match="cancel"):
        size_of("sqrt(N + 1) - sqrt(N)", "N")
