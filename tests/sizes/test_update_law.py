"""The law of an update: its degrees are those of exact entries, and descent is that of the loss."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.expression import UPDATE
from deepnet_theory.definitions.optimizer import custom_optimizer, optimizer, optimizers
from deepnet_theory.definitions.outcome import Refusal, Verdict
from deepnet_theory.proof.degrees import homogeneity_step
from deepnet_theory.sizes import update
from deepnet_theory.sizes.descent import SIZES, sampled
from deepnet_theory.sizes.update import descending
from deepnet_theory.sizes.update import law as degrees


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("eta*g", "the loss rises"),
        ("-eta*norm(theta)", "does not follow the gradient"),
        ("-eta*theta*sign(g)", "does not follow the gradient"),
        ("-eta*max(g, -g)", "does not follow the gradient"),
        ("-eta*(g + theta)", "different degrees"),
        ("-eta*g + eta*theta", "different degrees"),
        ("-eta*g/(abs(g) + 1/1000)", "different degrees"),
        ("-eta*clip(g, -1, 1)", "different degrees"),
        ("-eta*g*log(abs(g))", "a logarithm of something that scales"),
        ("-eta*log(abs(g))", "logarithm"),
        ("-eta**2*g", "of degree 2 in eta"),
        *((f"-eta*({zero})", "identically zero") for zero in (
            "0*g", "g - g", "sqrt(g**2) - abs(g)", "norm(g)**2 - numel(g)*rms(g)**2",
            "max(g, 2*g) - max(2*g, g)")),
        ("-eta*g/0", "divides by zero"),
        ("-eta*g*0**(-1)", "divides by zero"),
        ("-eta*g*log(1 - 1)", "logarithm of zero"),
        ("-eta*g/max(theta, 0)", "finite and real at every sign"),
        ("-eta*g/(theta - theta)", "not finite"),
    ],
)  # fmt: skip
def test_what_has_no_law_is_refused(text, says):
    with pytest.raises(Refusal, match=says):
        update.descending(custom_optimizer(text))
    if "rises" not in says and "follow" not in says:
        with pytest.raises(Refusal, match=says):  # by the steps alike
            degrees(custom_optimizer(text))


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("-eta*(g/(abs(g) + epsilon) + decay*theta)", {"epsilon": "g", "decay": "1/theta"}),
        (
            "-eta*(g + decay*theta)/(abs(g + decay*theta) + epsilon)",
            {"epsilon": "g", "decay": "g/theta"},
        ),
        ("-eta*norm(theta)*g/(norm(g) + epsilon**2)", {"epsilon": "g**(1/2)"}),
        ("-eta*max(epsilon, rms(theta))*sign(g)", {"epsilon": "theta"}),
    ],
)
def test_a_constant_takes_the_degrees_of_what_it_stands_beside(text, degrees):
    def constants(practice):
        found = update.practised(replace(custom_optimizer("-eta*g"), practice=practice))
        return {name: str(degree) for name, degree in found.items()}

    assert constants(text) == degrees
    with pytest.raises(Refusal, match="different degrees"):
        constants("-eta*g/(abs(g) + epsilon)/(norm(theta) + epsilon)")


# ---- degrees, on exact entries ----


OWN = (
    "-eta*norm(theta)**2*sign(g)",
    "-eta*sign(g)*abs(g)**(1/3)",
    "-eta*g*abs(theta)**(-1/2)",
    "-eta*theta*sign(g)*sign(theta)",
    "-eta*rms(theta)**(1/2)*polar(g)",
    "-eta*clip(g, -norm(g), norm(g))",
)
ALL = [*optimizers().values(), *map(custom_optimizer, OWN)]


@pytest.mark.parametrize("optimizer", ALL, ids=lambda o: o.update)
def test_degrees_hold_on_exact_entries(optimizer):
    found = degrees(optimizer)
    assert descending(optimizer).descent == {-1}
    assert homogeneity_step(optimizer, found).check() is Verdict.PROVED
    for wrong in (sp.Rational(1, 16), -1, sp.Rational(1, 2)):
        for planted in (replace(found, p=found.p + wrong), replace(found, q=found.q + wrong)):
            assert homogeneity_step(optimizer, planted).check() is Verdict.REFUTED


@settings(max_examples=20)
@given(
    st.fractions(min_value=-2, max_value=2, max_denominator=8),
    st.fractions(min_value=-2, max_value=2, max_denominator=8),
)
def test_degrees_of_products_of_powers_add(p, q):
    text = f"-eta*sign(g)*abs(g)**({p})*norm(theta)**({q})"
    found = degrees(custom_optimizer(text))
    assert (found.p, found.q) == (sp.Rational(p), sp.Rational(q))


def test_an_entry_that_is_no_real_number_is_no_sample():
    with pytest.raises(ArithmeticError):
        sampled(UPDATE.parse("sqrt(g)").root, SIZES[0])
    with pytest.raises(ArithmeticError):
        sampled(UPDATE.parse("log(g - g)").root, SIZES[0])


@pytest.mark.parametrize(
    ("update", "same"),
    [
        ("g*log(1 + 1)", "g*log(2)"),
        ("sign(g)*max(abs(g), rms(g), norm(g))", "sign(g)*max(max(abs(g), rms(g)), norm(g))"),
        ("sign(g)*min(norm(g), abs(g), rms(g))", "sign(g)*min(abs(g), min(rms(g), norm(g)))"),
        ("clip(g, -rms(g), rms(g))", "min(max(g, -rms(g)), rms(g))"),
    ],
)
def test_two_ways_to_write_an_update_are_one_update(update, same):
    one, other = (custom_optimizer(f"-eta*{text}") for text in (update, same))
    for size in SIZES:
        changes = (sampled(o.expression.root, size)[1] for o in (one, other))
        np.testing.assert_allclose(*changes)
    for written in (one, other):
        found = degrees(written)
        assert (found.p, found.q) == (1, 0)
        assert homogeneity_step(written, found).check() is Verdict.PROVED


def test_an_update_of_one_sign_is_what_it_leaves():
    found = degrees(custom_optimizer("-eta*max(-theta, 0)*g/norm(theta)"))
    assert (found.p, found.q) == (1, 0)


FACTORS = "*".join(f"(abs(g)+{k + 1}*norm(g))" for k in range(40))
LONG = {
    "nested maxima": "-eta*" + "".join(f"max({k}*g," for k in range(9)) + "g" + ")" * 9,
    "many factors, not multiplied out": f"-eta*sign(g)*{FACTORS}/norm(g)**40",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_update_has_its_degrees(name):
    optimizer = custom_optimizer(LONG[name])
    assert homogeneity_step(optimizer, degrees(optimizer)).check() is Verdict.PROVED


@settings(max_examples=8)
@given(st.fractions(min_value="1/1000", max_value=50, max_denominator=1000), st.booleans())
def test_a_floor_under_the_parameters_size_leaves_lambs_class(floor, first):
    sides = (f"{floor}", "rms(theta)") if first else ("rms(theta)", f"{floor}")
    floored = custom_optimizer(f"-eta*max({', '.join(sides)})*sign(g)")
    assert floored.floors == (floor,)
    found, lamb = degrees(floored), degrees(optimizer("lamb"))
    assert (found.p, found.q) == (lamb.p, lamb.q)
    step = homogeneity_step(floored, found)
    assert step.check() is Verdict.PROVED and step.assumptions == ("above-floor",)
