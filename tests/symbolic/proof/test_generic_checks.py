"""The generic checks see what is wrong at one point, in one direction or for one symbol alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sympy as sp

from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.proof.step import (
    SAMPLED,
    SAMPLED_AT_MOST,
    Check,
    Regime,
    Relation,
    Step,
    rational_point,
)

x, y = sp.symbols("x y", positive=True)
real = sp.Symbol("z", real=True)
n = sp.Symbol("n", integer=True, positive=True)


def step(lhs: Any, rhs: Any, relation: Relation = Relation.EQUAL, **more: Any) -> Step:
    return Step("planted", sp.sympify(lhs), sp.sympify(rhs), relation, "because", **more)


def points(check: Check, count: int) -> list[sp.Expr]:
    """The values of x at which the check looks, one after another."""
    generator = random.Random("planted")
    return [rational_point({x}, generator)[x] for _ in range(count)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_equality_that_fails_at_one_of_three_points_is_seen(place: int) -> None:
    wrong = sp.Piecewise((x + 1, sp.Eq(x, points(SAMPLED, 3)[place])), (x, True))
    assert not SAMPLED.holds(step(x, wrong))
    assert SAMPLED.holds(step(x, x))


@pytest.mark.parametrize("place", range(12))
def test_an_inequality_that_fails_at_one_of_twelve_points_is_seen(place: int) -> None:
    here = sp.Eq(x, points(SAMPLED_AT_MOST, 12)[place])
    wrong = sp.Piecewise((x - sp.Rational(1, 10**9), here), (x, True))
    assert not SAMPLED_AT_MOST.holds(step(x, wrong))
    assert SAMPLED_AT_MOST.holds(step(x, x))


def test_a_difference_far_below_rounding_is_seen() -> None:
    assert not SAMPLED.holds(step(x, x + sp.Rational(1, 10**20)))


def test_a_point_keeps_each_symbols_assumptions_and_tries_both_signs() -> None:
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
def test_a_ratio_that_is_not_of_order_one_everywhere_is_refuted(ratio: sp.Expr) -> None:
    assert step(ratio, 1, Relation.ORDER).check() is Verdict.REFUTED


def test_bounded_symbols_may_be_dropped_and_no_others() -> None:
    dropped = step(x * y / (1 + y), x, Relation.ORDER, bounded=(y,))
    assert dropped.check() is Verdict.PROVED
    assert step(x * y, x, Relation.ORDER, bounded=(x,)).check() is Verdict.REFUTED
    # two bounded symbols are two numbers: their difference is not 0
    assert step(x * (x - y), x * (x - y), Relation.ORDER, bounded=(x, y)).check() is Verdict.PROVED
    vanishing = step(x - y, 1, Relation.ORDER, bounded=(x, y))
    assert vanishing.check() is Verdict.PROVED


@pytest.mark.parametrize(
    ("ratio", "relation", "verdict"),
    [
        (1 + 1 / x, Relation.ASYMPTOTIC, Verdict.PROVED),
        (1 + x / (1 + x), Relation.ASYMPTOTIC, Verdict.REFUTED),
        (3 + 1 / x, Relation.ORDER, Verdict.PROVED),
        (1 / x, Relation.ORDER, Verdict.REFUTED),
        (1 / x, Relation.BOUND, Verdict.PROVED),
        (sp.log(x), Relation.BOUND, Verdict.REFUTED),
    ],
)
def test_a_limit_is_taken_in_the_steps_regime(
    ratio: sp.Expr, relation: Relation, verdict: Verdict
) -> None:
    assert step(ratio, 1, relation, regime=Regime(x, sp.oo)).check() is verdict


def test_an_inequality_needs_a_proof_of_its_sign() -> None:
    assert step(x, x + y, Relation.AT_MOST).check() is Verdict.PROVED
    assert step(x + y, x, Relation.AT_MOST).check() is Verdict.REFUTED
    assert step(x, 1000, Relation.AT_MOST).check() is Verdict.REFUTED  # holds at every point tried


def test_matrices_are_compared_entry_by_entry() -> None:
    one, other = sp.Matrix([[x, y]]), sp.Matrix([[x, y + x]])
    assert Step("m", one, one, Relation.EQUAL, "because").check() is Verdict.PROVED
    assert Step("m", one, other, Relation.EQUAL, "because").check() is Verdict.REFUTED


def test_an_asymptotic_step_names_its_regime() -> None:
    with pytest.raises(TypeError, match="must name its regime"):
        step(x, x, Relation.ASYMPTOTIC)


def test_a_check_that_cannot_be_carried_out_is_not_passed() -> None:
    def fails(_: Step) -> bool:
        raise ValueError

    assert step(x, x, checks=(Check("fails", fails),)).failures() == ("fails",)
