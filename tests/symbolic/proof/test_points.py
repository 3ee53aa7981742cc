"""Checks at points: each sees an error on either side, and a value that cannot be had is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
import sympy as sp

from deepnet_theory.spec.placement import Placement, placement
from deepnet_theory.spec.sublayer import sublayer
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.proof.checks import (
    Point,
    at_points,
    number,
    written_at,
)
from deepnet_theory.symbolic.proof.step import Check, Section, Step
from deepnet_theory.symbolic.proof.witness import Powers, sizes

a, b, n = sp.symbols("a b n", positive=True)
i = sp.Symbol("i", integer=True, positive=True)
POINTS = ({a: Decimal("0.3"), b: Fraction(5, 7)}, {a: sp.Integer(4), b: 0.25})


def products(_: Step) -> Iterator[Point]:
    for at in POINTS:
        with mpmath.workdps(40):
            yield at, number(at[a]) ** 2 * number(at[b])


def step(check: Check, lhs: sp.Expr = a * b * a, rhs: sp.Expr = a**2 * b) -> Step:
    return Section("Points").equal("row", lhs, rhs, "because", checks=(check,))


@pytest.mark.parametrize(
    "wrong",
    [-(a**2) * b, 2 * a**2 * b, a ** sp.Rational(33, 16) * b, a**2 * b + sp.Rational(1, 10**20), n],
)
def test_both_sides_are_held_against_what_is_computed_anew(wrong: sp.Expr) -> None:
    right = step(at_points("products", products))
    assert right.check() is Verdict.PROVED
    assert replace(right, rhs=wrong).check() is Verdict.REFUTED
    assert replace(right, lhs=wrong).check() is Verdict.REFUTED


def test_what_is_listed_at_sizes_may_differ_from_side_to_side() -> None:
    def listed() -> Iterator[Point]:
        for size in (1, 2, 3):
            yield {n: size}, (sp.Integer(size), sp.Add(*(a * k for k in range(1, size + 1))))

    right = step(written_at("listed", listed), n, sp.Sum(a * i, (i, 1, n)))
    assert right.check() is Verdict.PROVED
    assert replace(right, lhs=n + 1).check() is Verdict.REFUTED
    assert replace(right, rhs=2 * right.rhs).check() is Verdict.REFUTED


def test_a_number_is_computed_in_the_precision_that_is_set() -> None:
    third = sp.Pow(3, -1, evaluate=False)
    with mpmath.workdps(50):
        assert number(third * 3 - 1) == 0
        assert number(sp.Max(1, a), {a: 2}) == 2
        assert number(sp.Sum(i * a, (i, 1, n)), {n: sp.Integer(4), a: Decimal("0.5")}) == 5
        assert abs(number(sp.sqrt(2)) ** 2 - 2) < mpmath.mpf(10) ** -48


# ---- the explicit sublayer ----


def test_sizes_are_whole_powers_and_what_does_not_respond_has_none() -> None:
    found = sizes(placement("post-ln"), sublayer("attention"))
    assert found.weight == Powers(-1, 2)
    assert found.responses["value"] == found.responses["output"] == Powers(-1, 1)
    assert found.responses["query"] == Powers(-1, 2)
    assert found.responses["key_bias"] is None
    assert found.variances["sum"] == Powers(2, 0)


def test_a_size_that_is_no_power_is_not_rounded_to_one() -> None:
    mine = Placement("mine", "x + (1 + alpha/1000)*branch(norm(x))", final_norm=True)
    with pytest.raises(ArithmeticError, match="no power of alpha near the identity"):
        sizes(mine, sublayer("ffn"))
