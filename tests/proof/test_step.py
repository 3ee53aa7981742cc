"""The checks of a step: each sees what is wrong at one point, in one direction or on one side."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
import sympy as sp

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.proof.step import (
    SAMPLED,
    Check,
    Relation,
    Step,
    at_points,
    join,
    number,
    rational_point,
    written_at,
)

x, y = sp.symbols("x y", positive=True)
real = sp.Symbol("z", real=True)
n = sp.Symbol("n", integer=True, positive=True)


def step(lhs, rhs, relation=Relation.EQUAL, **more):
    return Step("planted", sp.sympify(lhs), sp.sympify(rhs), relation, "because", **more)


@pytest.mark.parametrize("place", range(3))
def test_an_error_at_one_of_the_points_is_seen(place):
    generator = random.Random("planted")
    points = [rational_point({x}, generator)[x] for _ in range(place + 1)]
    other = sp.Piecewise((x + 1, sp.Eq(x, points[place])), (x, True))
    assert not SAMPLED.holds(step(x, other)) and SAMPLED.holds(step(x, x))
    assert not SAMPLED.holds(step(x, x + sp.Rational(1, 10**20)))  # far below rounding


def test_a_point_keeps_each_symbols_assumptions_and_tries_both_signs():
    generator = random.Random(0)
    found = [rational_point({x, real, n}, generator) for _ in range(200)]
    assert {at[n] for at in found} == set(range(2, 10))
    assert all(0 < at[x] < 1 for at in found) and len({at[x] for at in found}) > 150
    assert {sp.sign(at[real]) for at in found} == {-1, 1}


@pytest.mark.parametrize(
    "ratio",
    [
        x,  # grows, or vanishes the other way
        x / y,
        x / (1 + x),  # of order one where x is large, and not where it is small
        (1 + x) / x,
        sp.sin(x) + 2,  # has no limit
    ],
)
def test_a_ratio_that_is_not_of_order_one_everywhere_is_refuted(ratio):
    assert step(ratio, 1, Relation.ORDER).check() is Verdict.REFUTED


def test_bounded_symbols_may_be_dropped_and_no_others():
    dropped = step(x * y / (1 + y), x, Relation.ORDER, bounded=(y,))
    assert dropped.check() is Verdict.PROVED
    assert step(x * y, x, Relation.ORDER, bounded=(x,)).check() is Verdict.REFUTED
    # two bounded symbols are two numbers: their difference is not 0
    vanishing = step(x - y, 1, Relation.ORDER, bounded=(x, y))
    assert vanishing.check() is Verdict.PROVED


@pytest.mark.parametrize(
    ("lhs", "rhs", "relation", "verdict"),
    [
        (x, x + y, Relation.AT_MOST, Verdict.PROVED),
        (x + y, x, Relation.AT_MOST, Verdict.REFUTED),
        (x, 1000, Relation.AT_MOST, Verdict.REFUTED),  # holds at every point tried
    ],
)
def test_signs_are_proved(lhs, rhs, relation, verdict):
    assert Step("planted", sp.sympify(lhs), sp.sympify(rhs), relation, "").check() is verdict


def test_a_check_that_cannot_be_carried_out_is_not_passed():
    def fails(_):
        raise ValueError

    assert step(x, x, checks=(Check("fails", fails),)).failures() == ("fails",)


def test_relations_join_to_the_weaker():
    E, L, T, B = (Relation[name] for name in ("EQUAL", "AT_MOST", "ORDER", "BOUND"))
    table = {(E, T): T, (T, B): B, (E, L): L, (L, T): B}
    assert join([]) is E and all(join(pair) is found for pair, found in table.items())
    for a, b, c in product(Relation, repeat=3):
        assert join([a, b]) is join([b, a]) and join([a, a]) is a
        assert join([join([a, b]), c]) is join([a, join([b, c])])


# ---- at points and at explicit sizes ----

a, b, size = sp.symbols("a b n", positive=True)
i = sp.Symbol("i", integer=True, positive=True)
VALUES = ({a: sp.Rational(3, 10), b: Fraction(5, 7)}, {a: sp.Integer(4), b: 0.25})


def products(_):
    for at in VALUES:
        yield at, number(at[a]) ** 2 * number(at[b])


RIGHT = a**2 * b
WRONG = (-RIGHT, 2 * RIGHT, RIGHT * a ** sp.Rational(1, 16), RIGHT + sp.Rational(1, 10**20), size)


@pytest.mark.parametrize("wrong", WRONG)
def test_both_sides_are_held_against_what_is_computed_anew(wrong):
    right = step(a * b * a, RIGHT, checks=(at_points("products", products),))
    assert right.check() is Verdict.PROVED
    assert replace(right, rhs=wrong).check() is Verdict.REFUTED
    assert replace(right, lhs=wrong).check() is Verdict.REFUTED


def test_what_is_listed_at_sizes_may_differ_from_side_to_side():
    def listed():
        for n in (1, 2, 3):
            yield {size: n}, (sp.Integer(n), sp.Add(*(a * k for k in range(1, n + 1))))

    right = step(size, sp.Sum(a * i, (i, 1, size)), checks=(written_at("listed", listed),))
    assert right.check() is Verdict.PROVED
    assert replace(right, lhs=size + 1).check() is Verdict.REFUTED
    assert replace(right, rhs=2 * right.rhs).check() is Verdict.REFUTED


def test_a_number_is_computed_to_many_digits():
    third = sp.Pow(3, -1, evaluate=False)
    assert abs(number(third * 3 - 1)) < sp.Float(10) ** -35
    assert float(number(sp.Max(1, a), {a: 2})) == 2
    listed = number(sp.Sum(i * a, (i, 1, size)), {size: sp.Integer(4), a: Fraction(1, 2)})
    assert float(listed) == 5
    assert abs(number(sp.sqrt(a + 1), {a: 4 * 10**200}) / (2 * 10**100) - 1) < sp.Float(10) ** -38
