"""Degrees of update rules, counted and checked on exact entries."""

import time
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.sizes.update import law as degrees
from deepnet_theory.sizes.update import practised
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.expression import UPDATE
from deepnet_theory.spec.optimizer import custom_optimizer, optimizers
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic.laws.optimizer import homogeneity_step, samples
from paper_checks.shared.steps.loss_of_one_update import loss_increment


@pytest.mark.parametrize("optimizer", optimizers().values(), ids=lambda o: o.name)
def test_the_degrees_of_every_optimizer_hold_on_exact_entries(optimizer):
    step = homogeneity_step(optimizer, degrees(optimizer))
    assert step.check() is Verdict.PROVED


@pytest.mark.parametrize("optimizer", optimizers().values(), ids=lambda o: o.name)
@pytest.mark.parametrize("wrong", [sp.Rational(1, 16), -1, sp.Rational(1, 2)])
def test_a_planted_degree_is_refuted(optimizer, wrong):
    found = degrees(optimizer)
    for planted in (replace(found, p=found.p + wrong), replace(found, q=found.q + wrong)):
        assert homogeneity_step(optimizer, planted).check() is Verdict.REFUTED


@pytest.mark.parametrize("optimizer", optimizers().values(), ids=lambda o: o.name)
def test_the_loss_falls_by_what_the_step_says(optimizer):
    step = loss_increment(optimizer)
    assert step.check() is Verdict.PROVED
    for planted in (-step.rhs, 2 * step.rhs, step.rhs**2):
        assert replace(step, rhs=planted).check() is Verdict.REFUTED


@settings(max_examples=20)
@given(
    st.fractions(min_value=-2, max_value=2, max_denominator=8),
    st.fractions(min_value=-2, max_value=2, max_denominator=8),
)
def test_degrees_of_products_of_powers_add(p, q):
    text = f"-eta*sign(g)*abs(g)**({p})*norm(theta)**({q})"
    found = degrees(custom_optimizer(text))
    assert (found.p, found.q) == (sp.Rational(p), sp.Rational(q))


def constants(text):
    return practised(replace(custom_optimizer("-eta*g"), practice=text)).constants


@pytest.mark.parametrize(
    ("text", "epsilon", "decay"),
    [
        ("-eta*(g/(abs(g) + epsilon) + decay*theta)", (1, 0), (0, -1)),
        ("-eta*(g + decay*theta)/(abs(g + decay*theta) + epsilon)", (1, 0), (1, -1)),
        ("-eta*norm(theta)*g/(norm(g) + epsilon**2)", (Fraction(1, 2), 0), None),
        ("-eta*max(epsilon, rms(theta))*sign(g)", (0, 1), None),
    ],
)
def test_a_constant_takes_the_degrees_of_what_it_stands_beside(text, epsilon, decay):
    found = {name: (d.exponent("g"), d.exponent("theta")) for name, d in constants(text).items()}
    assert found.get("epsilon") == epsilon and found.get("decay") == decay


def test_a_constant_that_would_need_two_degrees_is_refused():
    with pytest.raises(Refusal, match="different degrees"):
        constants("-eta*g/(abs(g) + epsilon)/(norm(theta) + epsilon)")


@pytest.mark.parametrize(
    ("update", "why"),
    [
        ("-eta*g + eta*theta", "different degrees"),
        ("-eta*g/(abs(g) + 1/1000)", "different degrees"),
        ("-eta*clip(g, -1, 1)", "different degrees"),
        ("-eta*log(abs(g))", "logarithm"),
        ("-eta**2*g", "degree 2 in eta"),
        ("-eta*(g - g)", "identically zero"),
        ("-eta*0*g", "identically zero"),
        ("-eta*g/0", "divides by zero"),
        ("-eta*g*0**(-1)", "divides by zero"),
        ("-eta*g*log(1 - 1)", "finite and real at every sign"),
    ],
)
def test_updates_without_degrees_are_refused_with_the_reason(update, why):
    with pytest.raises(Refusal, match=why):
        degrees(custom_optimizer(update))


def test_an_entry_that_is_no_real_number_is_no_sample():
    with pytest.raises(ArithmeticError):
        samples(UPDATE.parse("sqrt(g)").root)
    with pytest.raises(ArithmeticError, match="not finite"):
        samples(UPDATE.parse("log(g - g)").root)


def test_a_stated_regime_decides_a_sum_both_ways():
    update = "-eta*g/(abs(g) + 1/1000)"
    above = degrees(custom_optimizer(update, (("abs(g)", "1/1000"),)))
    below = degrees(custom_optimizer(update, (("1/1000", "abs(g)"),)))
    assert (above.p, below.p) == (0, 1)
    for regime in ((("abs(g)", "1/1000"),), (("1/1000", "abs(g)"),)):
        optimizer = custom_optimizer(update, regime)
        assert homogeneity_step(optimizer, degrees(optimizer)).check() is Verdict.PROVED


@pytest.mark.parametrize("update", ["g + theta", "g - theta", "-theta + g", "-g + theta"])
def test_a_regime_decides_whatever_the_sign_of_a_term(update):
    for regime, degree in ((("g", "theta"), (1, 0)), (("theta", "g"), (0, 1))):
        found = degrees(custom_optimizer(f"-eta*({update})", (regime,)))
        assert (found.p, found.q) == degree


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
    assert samples(one.expression.root) == samples(other.expression.root)
    for optimizer in (one, other):
        found = degrees(optimizer)
        assert (found.p, found.q) == (1, 0)
        assert homogeneity_step(optimizer, found).check() is Verdict.PROVED


def test_the_probe_of_zero_sees_every_sign():
    found = degrees(custom_optimizer("-eta*max(-theta, 0)*g/norm(theta)"))
    assert (found.p, found.q) == (1, 0)
    with pytest.raises(Refusal, match="finite and real at every sign"):
        degrees(custom_optimizer("-eta*g/max(theta, 0)"))


@pytest.mark.parametrize(
    "zero", ["sqrt(g**2) - abs(g)", "norm(g)**2 - numel(g)*rms(g)**2", "max(g, 2*g) - max(2*g, g)"]
)
def test_what_rounding_leaves_of_zero_is_zero(zero):
    with pytest.raises(Refusal, match="identically zero"):
        degrees(custom_optimizer(f"-eta*({zero})"))


def test_a_clipped_update_is_what_its_regimes_leave():
    clipped = custom_optimizer("-eta*clip(g, -1, 1)", (("g", "-1"), ("1", "max(g, -1)")))
    assert degrees(clipped).reduced == custom_optimizer("-eta*g").expression.root


@pytest.mark.parametrize("levels", [2, 50])
def test_nested_maxima_take_time_in_proportion(levels):
    update = "g"
    for level in range(levels):
        update = f"max({level}*g,{update})"
    start = time.perf_counter()
    optimizer = custom_optimizer(f"-eta*{update}")
    assert homogeneity_step(optimizer, degrees(optimizer)).check() is Verdict.PROVED
    assert loss_increment(optimizer).check() is Verdict.PROVED
    assert time.perf_counter() - start < 1 + levels / 5


def test_an_update_of_many_factors_is_not_multiplied_out():
    factors = "*".join(f"(abs(g)+{k + 1}*norm(g))" for k in range(40))
    start = time.perf_counter()
    step = loss_increment(custom_optimizer(f"-eta*sign(g)*{factors}/norm(g)**40"))
    assert step.check() is Verdict.PROVED
    assert time.perf_counter() - start < 5


def test_nested_sums_with_a_regime_each_take_time_in_proportion():
    update, regimes = "g", []
    for level in range(26):
        regimes.append((update, f"theta/{level + 2}"))
        update = f"({update} + theta/{level + 2})"
    start = time.perf_counter()
    found = degrees(custom_optimizer(f"-eta*{update}", tuple(regimes)))
    assert (found.p, found.q, len(found.regimes)) == (1, 0, 26)
    assert time.perf_counter() - start < 5


def test_adafactor_is_in_lambs_class_above_its_floor_and_in_adams_below():
    from deepnet_theory.spec.optimizer import optimizer

    above = degrees(optimizer("adafactor"))
    below = degrees(custom_optimizer(optimizer("adafactor").update, (("1/1000", "rms(theta)"),)))
    lamb, adam = degrees(optimizer("lamb")), degrees(optimizer("adam"))
    assert (above.p, above.q) == (lamb.p, lamb.q)
    assert (below.p, below.q) == (adam.p, adam.q)
