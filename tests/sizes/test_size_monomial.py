"""Monomials: exact algebra, their text, and linear solving in logarithms."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.sizes.monomial import ONE, Monomial, parse, solve
from deepnet_theory.spec.expression import DEPTH, evaluate

exponents = st.fractions(min_value=-2, max_value=2, max_denominator=4)
monomials = st.dictionaries(st.sampled_from(["2", "3", "N", "M"]), exponents).map(
    Monomial.from_powers
)


@given(monomials)
def test_text_reads_back(of: Monomial) -> None:
    assert parse(str(of)) == of
    value = evaluate(DEPTH.parse(str(of)), N=5, M=11)
    assert math.isclose(of.at(N=5, M=11), value, rel_tol=1e-9)


@given(monomials, monomials, exponents)
def test_the_algebra_is_that_of_the_values(a: Monomial, b: Monomial, power: Fraction) -> None:
    at = {"N": 5.0, "M": 11.0}
    assert math.isclose((a * b).at(**at), a.at(**at) * b.at(**at), rel_tol=1e-9)
    assert math.isclose((a / b).at(**at), a.at(**at) / b.at(**at), rel_tol=1e-9)
    assert math.isclose((a**power).at(**at), a.at(**at) ** float(power), rel_tol=1e-9)
    assert a * b / b == a and a**0 == ONE


@pytest.mark.parametrize(
    ("powers", "text"),
    [
        ({"2": 1, "N": 1}, "2*N"),
        ({"2": 2}, "4"),
        ({"2": -2}, "1/4"),
        ({"2": 3, "3": -3}, "8/27"),
        ({"2": -1, "N": -1}, "1/(2*N)"),
        ({"2": Fraction(3, 4), "N": Fraction(-1, 4)}, "(N/8)**(-1/4)"),
        ({"N": Fraction(1, 4), "M": Fraction(1, 16), "3": Fraction(-3, 16)}, "(N**4*M/27)**(1/16)"),
        ({}, "1"),
    ],
)
def test_a_monomial_prints_one_root(powers: dict[str, Fraction], text: str) -> None:
    assert str(Monomial.from_powers({b: Fraction(p) for b, p in powers.items()})) == text


@pytest.mark.parametrize("text", ["N + 1", "2 - N", "log(N)", "-N", "0"])
def test_what_is_no_monomial_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


@given(monomials, monomials)
def test_a_solution_satisfies_its_conditions(a: Monomial, b: Monomial) -> None:
    alpha, beta = Monomial.of("alpha"), Monomial.of("beta")
    conditions = [a * alpha**2 / beta, b * alpha * beta]
    solution = solve(conditions, ["alpha", "beta"])
    assert solution is not None and not solution.free
    assert all(condition.put(solution.values) == ONE for condition in conditions)


def test_contradiction_and_freedom_are_told_apart() -> None:
    alpha, beta, depth = map(Monomial.of, ("alpha", "beta", "N"))
    assert solve([alpha * depth, alpha], ["alpha"]) is None
    free = solve([alpha * beta * depth], ["alpha", "beta"])
    assert free is not None and free.free == ("alpha", "beta")
    half = solve([alpha * depth], ["alpha", "beta"])
    assert half is not None and half.free == ("beta",)
    assert half.values == {"alpha": depth**-1}
