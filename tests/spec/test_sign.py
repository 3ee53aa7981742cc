"""Updates that are not real are refused, with the form that is meant."""

import math
from typing import ClassVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deepnet_theory.spec.errors import InputError
from deepnet_theory.spec.expression import UPDATE, FloatAlgebra, fold
from deepnet_theory.spec.optimizer import custom_optimizer
from deepnet_theory.spec.sign import sign, text


@pytest.mark.parametrize(
    ("update", "meant"),
    [
        ("-eta*g**(1/3)", "sign(g)*abs(g)**(1/3)"),
        ("-eta*g**(255/256)", "sign(g)*abs(g)**(255/256)"),
        ("-eta*sqrt(g)", "sign(g)*sqrt(abs(g))"),
        ("-eta*max(sqrt(g), 1)", "sign(g)*sqrt(abs(g))"),
        ("eta*log(-2)*g", "log(abs(-2))"),
        ("eta*log(g/theta)", "log(abs(g/theta))"),
        ("eta*g*(1 - 3/2)**(2/3)", "abs(1-(3/2))**(2/3)"),
        ("eta*(-g - theta)**0.5", "abs((-g)-theta)**(1/2)"),
        ("eta*sqrt(clip(g, -1, 1))", "sqrt(abs(clip(g, -1, 1)))"),
        ("eta*sqrt(-abs(g))*sign(g)", "sqrt(abs(-abs(g)))"),
    ],
)
def test_a_root_or_logarithm_of_what_may_be_negative_is_refused(update, meant):
    with pytest.raises(InputError, match="is not real") as caught:
        custom_optimizer(update)
    assert meant in str(caught.value)
    custom_optimizer(f"eta*{meant}*g")  # the form that is named is accepted


@pytest.mark.parametrize(
    "update",
    [
        "-eta*sign(g)*abs(g)**(1/3)",
        "-eta*g/sqrt(g*g)",
        "-eta*g/sqrt(g*sign(g))",
        "-eta*sqrt(max(g, 0))",
        "-eta*g*sqrt(clip(theta, 0, 1))",
        "-eta*g*sqrt(1 - 0.99)",
        "-eta*g/(g**2 + theta**2)**(1/2)",
        "-eta*sqrt(g**4/theta**2)",
        "-eta*sqrt(min(-1, g)*min(g, -abs(theta)))",
    ],
)
def test_roots_of_what_is_never_negative_stay(update):
    custom_optimizer(update)


class _Signed(FloatAlgebra):
    functions: ClassVar = {**FloatAlgebra.functions, "sign": lambda x: (x > 0) - (x < 0)}


_TERMS = st.recursive(
    st.sampled_from(["g", "theta", "eta", "2", "0.5", "(-1)", "0"]),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]}{t[1]}{t[2]})")
        | st.tuples(inner, st.sampled_from(["2", "3", "-1"])).map("({0[0]})**({0[1]})".format)
        | st.tuples(st.sampled_from(["sign", "abs"]), inner).map("{0[0]}({0[1]})".format)
        | st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(
            "{0[0]}({0[1]},{0[2]})".format
        )
    ),
    max_leaves=8,
)


@given(_TERMS, st.sampled_from([-1.7, -0.3, 0.4, 2.1]), st.sampled_from([-3.1, -0.2, 0.7, 1.9]))
def test_what_is_said_never_to_be_negative_is_not(term, g, theta):
    root = UPDATE.parse(term).root
    assume(sign(root).never_negative)
    try:
        value = fold(root, _Signed(eta=0.6, g=g, theta=theta))
    except ArithmeticError:
        assume(False)
    assert math.isnan(value) or value >= -1e-9 * (1 + abs(value))


@given(_TERMS)
def test_a_term_reads_back_as_it_is_written(term):
    root = UPDATE.parse(term).root
    again = UPDATE.parse(text(root)).root
    try:
        first, second = (fold(r, _Signed(eta=0.6, g=-1.3, theta=0.7)) for r in (root, again))
    except ArithmeticError:
        assume(False)
    assert first == pytest.approx(second, rel=1e-9, nan_ok=True)
