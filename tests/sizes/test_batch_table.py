"""The powers of the batch size: the degree of an update decides them, whatever it is."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.optimizer import above_floors, optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.explicit import evaluated, unit_pair
from deepnet_theory.sizes.batch import NO_NOISE, B
from deepnet_theory.sizes.monomial import ONE
from deepnet_theory.sizes.update import law
from deepnet_theory.sizes.width import role_table

HALF = Fraction(1, 2)


def row(update, role="fc1", **given):
    return role_table(Selection(update=update), "batch", **given).row(role)


@pytest.mark.parametrize(
    ("name", "rate", "decay", "epsilon", "memory_rate"),  # the last where 1 - beta is times B
    [
        ("sgd", B, ONE, None, None),  # the linear rule; Goyal et al., arXiv 1706.02677
        ("momentum", B, ONE, None, B**2),  # torch sums: eta/(1 - mu) is times B
        ("adamw", B**HALF, B**HALF, B**-HALF, B**HALF),  # Malladi et al., arXiv 2205.10287
        ("lion", B**HALF, B**HALF, None, B),
        ("lamb", B**HALF, B**HALF, B**-HALF, B),
        ("muon", B**HALF, B**HALF, B**-HALF, B),
        ("shampoo", B**HALF, B**HALF, None, None),
    ],
)
def test_published_rules_come_out(name, rate, decay, epsilon, memory_rate):
    for one in role_table(Selection(optimizer=name), "batch").rows:
        if one.place.is_matrix:
            assert (one.rate, one.decay, one.epsilon) == (rate, decay, epsilon), one.role
            assert (one.memory, one.memory_rate) == (memory_rate and B, memory_rate)


@given(st.fractions(Fraction(-2, 5), 4, max_denominator=8), st.integers(-3, 3))
@settings(max_examples=12)
def test_the_degree_decides(power, of_norm):
    """η ∝ B^((1+p)/2) and ηλT fixed, for entries to a power and any power of the norm."""
    found = row(f"-eta*sign(g)*abs(g)**({power})*norm(g)**({of_norm})")
    p = power + of_norm
    assert found.rate == B ** ((1 + p) / 2)
    assert found.rate * found.decay == B
    assert found.coupled_decay == ONE  # beside the mean gradient, whose size B does not change


@pytest.mark.parametrize("name", optimizers())
def test_the_degree_is_that_of_the_depth(name):
    selection = Selection(optimizer=name)
    p = law(selection.the_optimizer).p
    assert role_table(selection, "batch").row("query").rate == B ** ((1 + p) / 2)
    still = role_table(selection, "batch", gradient_noise=NO_NOISE)
    assert {r.rate for r in still.rows if not r.refused} == {ONE}  # stability binds
    assert still.row("query").decay == B


@pytest.mark.parametrize("name", [n for n, o in optimizers().items() if o.averaged])
def test_an_average_of_one_gradient_gives_the_first_step(name):
    """Up to a number, such as the share of a first gradient in what is kept."""
    (g, theta), one = unit_pair(), optimizers()[name]
    first = evaluated(above_floors(one.expression.root), g, theta, eta=1.0)
    kept = evaluated(above_floors(one.averaged.root), g, theta, eta=1.0, v=g**2, memory=1.0)
    np.testing.assert_allclose(kept * (first / kept).flat[0], first)


def test_a_role_that_starts_at_zero_takes_the_library_s_own_step():
    lars = role_table(Selection(optimizer="lars"), "batch")
    assert (lars.row("fc1").rate, lars.row("fc1-bias").rate) == (B**HALF, B)
    assert "0 where theta is 0" in row("-eta*norm(theta)*sign(g)", "fc1-bias").refused
    assert lars.row("key-bias").rate == ONE


@pytest.mark.parametrize(
    ("update", "law"),
    [
        ("-eta*sign(g)*abs(g)**(-1/2)", "no second moment"),
        ("-eta*g/(abs(g) - rms(g))", "no second moment"),
        ("-eta*sign(g)*norm(sign(g)*abs(g)**(-0.6))", "no second moment"),
        ("-eta*abs(g)", "no linear response"),
        ("-eta*theta*sign(g)", "no linear response"),
        ("eta*g", "no linear response"),
        ("-eta*max(g, 0)", "even in g"),
        ("-eta*max(g, -g/2)", "even in g"),
        ("-eta*(g + norm(g)*theta)", "even in g"),
        ("-eta*clip(g, -1, 1)", "different degrees"),
        ("-eta**2*g", "of degree 2 in eta"),
    ],
)
def test_the_missing_law_is_named(update, law):
    with pytest.raises(Refusal, match=law):
        row(update)


def test_without_noise_no_drift_and_no_second_moment_are_asked_for():
    assert row("-eta*max(g, 0)", gradient_noise=NO_NOISE).rate == ONE
    assert row("-eta*sign(g)*abs(g)**(-1/2)", gradient_noise=NO_NOISE).rate == ONE
    assert row("-eta*g", gradient_noise=NO_NOISE).coupled_decay == B
    assert row("-eta*sign(g)", gradient_noise=NO_NOISE).coupled_decay is None
