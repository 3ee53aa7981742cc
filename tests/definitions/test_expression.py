"""The grammar: any string gives a value or the one clear error; updates that are not real."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deepnet_theory.definitions import expression as room
from deepnet_theory.definitions.expression import DEPTH, FUNCTIONS, UPDATE, Algebra, evaluate, fold
from deepnet_theory.definitions.optimizer import custom_optimizer, sign
from deepnet_theory.definitions.optimizer import text as written
from deepnet_theory.definitions.outcome import InputError

HOSTILE = [
    "9**9**9**9", "9**(9**9)", "-eta*g*1e300**64", "((1e300**64)**64)**64",
    "__import__('os').system('true')", "eta.__class__",
    "ｅｔａ*g",  # full-width letters, which Python would normalise to eta
    "еta*g",  # a Cyrillic first letter
    "eta*g\n; import os", "lambda: g", "[g for g in g]", "g if g else eta", "f'{g}'", "eta := g",
    "1j*g", "True", "...", "sign(*g)", "", "   ", "((g**256)**256)**256",
    "polar(" * 9 + "g" + ")" * 9,
    "max(g, (((9**256)**256)**256)**256)", "clip(g, 0, (((9**256)**256)**256)**256)",
    "*".join(["g**60"] * 9), "(" * 250 + "g" + ")" * 250, "-" * 400 + "g", "(" * 10_000_000,
    "sign(" * 150 + "g" + ")" * 150,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: repr(t)[:30])
def test_hostile_text_gets_one_clear_sentence_and_hangs_nothing(text):
    with pytest.raises(InputError) as caught:
        UPDATE.parse(text)
    assert len(str(caught.value)) < 500


@given(
    st.integers(1, 1000),
    st.fractions(min_value=Fraction(-4), max_value=Fraction(4), max_denominator=16),
)
def test_depth_expressions_have_the_value_that_python_gives(depth, power):
    text = f"(2*N)**({power.numerator}/{power.denominator})"
    assert evaluate(DEPTH.parse(text), N=depth) == pytest.approx((2 * depth) ** float(power))


def test_what_is_just_allowed_is_read():
    allowed = ("clip(g, 0, 1)", "g**256", "g**(1/256)", "g**1**256")
    for text in (f"max({', '.join('g' * 8)})", *allowed):
        assert UPDATE.parse(text).names == {"g"}
    assert UPDATE.parse("+g").root == UPDATE.parse("g").root
    assert DEPTH.parse("N**0.1").root.exponent == Fraction(1, 10)  # and no binary float
    exact = [room.constant(DEPTH.parse(text).root) for text in ("4**2/2", "4**0.5", "N")]
    assert exact == [8, None, None]


REAL = [  # roots and logarithms of what may be negative are refused: tests/outputs
    "-eta*sign(g)*abs(g)**(1/3)",
    "-eta*g/sqrt(g*g)",
    "-eta*g/sqrt(g*sign(g))",
    "-eta*sqrt(max(g, 0))",
    "-eta*g*sqrt(clip(theta, 0, 1))",
    "-eta*g*sqrt(1 - 0.99)",
    "-eta*g/(g**2 + theta**2)**(1/2)",
    "-eta*sqrt(g**4/theta**2)",
    "-eta*sqrt(min(-1, g)*min(g, -abs(theta)))",
]


@pytest.mark.parametrize("update", REAL)
def test_a_root_of_what_is_never_negative_is_read(update):
    custom_optimizer(update)


def _at(root, **names):
    functions = {**FUNCTIONS, "sign": lambda x: float((x > 0) - (x < 0))}
    return fold(root, Algebra(names, functions))


def _grow(inner):
    one = st.sampled_from(["sign({0})", "abs({0})", "({0})**(2)", "({0})**(3)", "({0})**(-1)"])
    two = st.sampled_from(["max({0},{1})", "min({0},{1})", *(f"({{0}}{s}{{1}})" for s in "+-*/")])
    return st.builds(str.format, one | two, inner, inner)


_TERMS = st.recursive(st.sampled_from(["g", "theta", "eta", "2", "0.5", "(-1)", "0"]), _grow)


@given(_TERMS, st.sampled_from([-1.7, -0.3, 0.4, 2.1]), st.sampled_from([-3.1, -0.2, 0.7, 1.9]))
def test_what_is_said_never_to_be_negative_is_not(term, g, theta):
    root = UPDATE.parse(term).root
    assume(sign(root).never_negative)
    try:
        value = _at(root, eta=0.6, g=g, theta=theta)
    except ArithmeticError:
        assume(False)
    assert math.isnan(value) or value >= -1e-9 * (1 + abs(value))


@given(_TERMS)
def test_a_term_reads_back_as_it_is_written(term):
    root = UPDATE.parse(term).root
    assert UPDATE.parse(term).names <= {"eta", "g", "theta"}
    again = UPDATE.parse(written(root)).root
    try:
        first, second = (_at(r, eta=0.6, g=-1.3, theta=0.7) for r in (root, again))
    except ArithmeticError:
        assume(False)
    assert first == pytest.approx(second, rel=1e-9, nan_ok=True)
