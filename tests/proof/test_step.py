"""The checks of a step: each sees what is wrong at one point, in one direction or on one side."""

import random
from dataclasses import replace

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.proof.step import (
    SAMPLED,
    Check,
    Relation,
    Step,
    equal_at_sizes,
    join,
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


powers = st.fractions(-3, 3, max_denominator=16)
few = settings(max_examples=15, deadline=None)


@few
@given(powers, powers)
def test_a_product_of_powers_is_of_order_one_where_they_are_zero(p, q):
    ratio = x ** sp.Rational(p) * y ** sp.Rational(q)
    found = step(ratio, 1, Relation.ORDER).check()
    assert found is (Verdict.PROVED if p == q == 0 else Verdict.REFUTED)


@pytest.mark.parametrize("ratio", [x / (1 + x), (1 + x) / x, sp.sin(x) + 2])
def test_a_ratio_that_is_not_of_order_one_everywhere_is_refuted(ratio):
    assert step(ratio, 1, Relation.ORDER).check() is Verdict.REFUTED


def test_bounded_symbols_may_be_dropped_and_no_others():
    dropped = step(x * y / (1 + y), x, Relation.ORDER, bounded=(y,))
    assert dropped.check() is Verdict.PROVED
    assert step(x * y, x, Relation.ORDER, bounded=(x,)).check() is Verdict.REFUTED
    # two bounded symbols are two numbers: their difference is not 0
    vanishing = step(x - y, 1, Relation.ORDER, bounded=(x, y))
    assert vanishing.check() is Verdict.PROVED


@few
@given(*(st.integers(1, 9) for _ in range(4)))
def test_a_sum_is_at_most_one_of_larger_terms(one, two, more, most):
    smaller, larger = one * x + two * y, (one + more) * x + (two + most) * y
    assert step(smaller, larger, Relation.AT_MOST).check() is Verdict.PROVED
    for wrong in (-larger, 1000 * one, smaller / 2, larger - (more + 1) * x):
        assert step(smaller, wrong, Relation.AT_MOST).check() is Verdict.REFUTED


def test_a_check_that_cannot_be_carried_out_is_not_passed():
    def fails(_):
        raise ValueError

    assert step(x, x, checks=(Check("fails", fails),)).failures() == ("fails",)


@given(*[st.lists(st.sampled_from([*Relation]))] * 2)
def test_relations_join_to_the_weaker_in_any_order(some, others):
    together = join([*some, *others])
    assert together is join([*others, *some]) is join([join(some), join(others)])
    E, L, T, B = (Relation[name] for name in ("EQUAL", "AT_MOST", "ORDER", "BOUND"))
    table = {(E, T): T, (T, B): B, (E, L): L, (L, T): B}
    assert join([]) is E and all(join(pair) is found for pair, found in table.items())


# ---- at explicit sizes ----

a, size = sp.symbols("a n", positive=True)
i = sp.Symbol("i", integer=True, positive=True)


def listed():
    for count in (1, 2, 3):
        yield {size: count}, (sp.Integer(count), sp.Add(*(a * k for k in range(1, count + 1))))


@few
@given(powers, st.sampled_from([1, -1, 2]))
def test_each_side_is_held_against_what_is_listed_at_sizes(p, times):
    right = step(size, sp.Sum(a * i, (i, 1, size)), checks=(written_at("listed", listed),))
    wrong = times * a ** sp.Rational(p)
    same = Verdict.PROVED if wrong == 1 else Verdict.REFUTED
    for side in ("lhs", "rhs"):
        assert replace(right, **{side: getattr(right, side) * wrong}).check() is same
    tiny = right.rhs + sp.Rational(1, 10**20)
    assert replace(right, rhs=tiny).check() is replace(right, lhs=a).check() is Verdict.REFUTED


@pytest.mark.parametrize("size", [1, 2, 3])
def test_sides_that_differ_at_one_size_are_not_equal_at_sizes(size):
    others = sp.Mul(*(n - other for other in {1, 2, 3} - {size}))
    assert not equal_at_sizes(n).holds(step(x * others, 0))
    assert equal_at_sizes(n).holds(step(x * others * (n - size), 0))
