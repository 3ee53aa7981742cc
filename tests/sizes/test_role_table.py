"""A row a role, in width and in the batch: its conditions hold in every gauge."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.constants import FORMS
from deepnet_theory.definitions.optimizer import OPTIMIZERS, above_floors, custom_optimizer
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.selection import ALIGNMENTS, Selection
from deepnet_theory.models.step import update as on_tensors
from deepnet_theory.proof.explicit import evaluated, unit_pair
from deepnet_theory.sizes.batch import NO_NOISE, B
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.update import GRADIENT, PARAMETER, law, step
from deepnet_theory.sizes.width import role_table, scores

OWN = (
    "-eta*sign(g)*abs(g)**(1/2)",
    "-eta*abs(theta)*sign(g)",
    "-eta*norm(theta)**2*sign(g)/numel(theta)",
    "-eta*g/norm(g)",
    "-eta*sign(g)/norm(g)",
    "-eta*sqrt(columns(theta))*clip(g/rms(g), -1, 1)",
)
D = Monomial.of("d")
selections = st.builds(
    Selection,
    optimizer=st.none(),
    update=st.sampled_from((*OWN, *(o.update for o in OPTIMIZERS.values()))),
    placement=st.sampled_from(("post-ln", "pre-ln", "sandwich-ln")),
    norm=st.sampled_from(("layer", "rms")),
    layer=st.sampled_from((None, "attention,ffn:swiglu")),
)


@settings(max_examples=20)
@given(selections, st.sampled_from(ALIGNMENTS))
def test_aligned_updates_change_the_loss_by_one_and_two_forms_are_one_model(selection, alignment):
    forward, weights = (role_table(selection, alignment=alignment, form=form) for form in FORMS)
    for row in (*forward.rows, *weights.rows):
        if alignment == "full" and row.role != "tied-head" and row.gradient and row.rate:
            n_in, n_out = row.place.shape
            assert n_in * n_out * row.gradient * row.update * row.rate == ONE, row.role
    one, other = forward.row("head"), weights.row("head")
    assert one.init * one.multiplier == other.init * other.multiplier
    of = step(selection.the_optimizer, {GRADIENT: ONE, PARAMETER: ONE, "in": D, "out": ONE}).action
    p, q = of.exponent(GRADIENT), of.exponent(PARAMETER)
    if one.rate and other.rate:  # W = cW' with c the forward multiplier
        assert one.rate == other.rate * one.multiplier ** (q - p - 1)


@pytest.mark.parametrize(
    ("update", "roles", "says"),
    [
        ("-eta*norm(theta)*sign(g)", ("fc1-bias", "norm-bias", "head-bias"), "never leaves it"),
        ("-eta*polar(g)", ("tied-head",), "multiplier of 1/d"),
        ("-eta*log(numel(theta))*g", ("fc1", "head"), "a logarithm of something that scales"),
    ],
)
def test_a_role_is_refused_by_itself(update, roles, says):
    of = role_table(Selection(update=update, placement="pre-ln"), form="weights")
    for role in roles:
        assert says in (of.row(role).refused or "")
        assert of.row(role).rate is None
    assert any(row.rate is not None for row in of.rows)


def test_a_tied_head_asks_for_one_rate():
    for name in ("sgd", "adam", "lamb", "muon-plain", "muon"):
        of = role_table(Selection(optimizer=name))
        assert of.row("tied-head").rate == of.row("token-embedding").rate
        assert of.row("tied-head").multiplier == D**-1
    walk = Selection(update="-eta*theta*sign(g)")  # as the head
    refused = role_table(walk).row("tied-head").refused
    assert "two rates of one matrix" in (refused or "")


def test_what_is_forced_has_one_value_in_every_gauge():
    for name in ("sgd", "adam"):
        selection = Selection(optimizer=name, placement="pre-ln")
        forward, weights = (role_table(selection, form=form).forced for form in FORMS)
        assert set(forward) == set(weights)
    assert any(line.startswith("rate*multiplier = 1/d for query") for line in forward)
    assert not any(line.startswith("rate = ") for line in forward)
    assert role_table(selection, "ffn").forced == ()


@pytest.mark.parametrize(("alignment", "power"), [("full", -1), ("none", Fraction(-1, 2))])
def test_a_move_of_queries_by_one_moves_the_scores_by_one(alignment, power):
    assert scores(alignment) == Monomial.of("k") ** power
    of = role_table(Selection(optimizer="adam"), alignment=alignment)
    assert f"multiplier of the scores = {scores(alignment)} for heads of k entries" in of.forced


# ---- another premise gives another number ----


MUON = "-eta*polar(g)/rms(polar(g))"
MOONLIGHT = "-eta*sqrt(max(rows(theta), columns(theta)))*polar(g)"


@pytest.mark.parametrize(
    ("update", "low"),
    [(MUON, "1/d"), (MOONLIGHT, "d**(-1/2)"), (f"{MUON} - eta*sign(g)", "1/d")],
)
def test_spellings_of_one_update_at_full_rank_have_one_rate(update, low):
    """A batch has fewer tokens than the width, or a gradient of full rank."""
    few, many = (role_table(Selection(update=update, rank=rank)) for rank in ("low", "full"))
    assert str(few.row("query").rate) == low
    assert any("fewer tokens than the width" in line for line in few.conventions)
    assert any("at least as many tokens" in line for line in many.conventions)
    if "sign" in update:
        assert "of full rank to a term of low rank" in many.row("query").refused
    else:
        assert str(many.row("query").rate) == "d**(-1/2)"
        assert few.row("head").rate == many.row("head").rate  # few logits: of low rank anyway


@pytest.mark.parametrize("update", ["-eta*g/norm(g)", "-eta*g*norm(g)**(-1)"])
def test_what_has_no_gradient_takes_no_step(update):
    """0/0 is 0, as for a zero head: so are rows of a ReLU unit that no token reaches."""
    expression = custom_optimizer(update).expression
    for rows in ([0.0, 1.0], [0.0, 0.0]):
        g = np.array(rows)[:, None] * np.array([3.0, 4.0])
        theta = np.ones_like(g)
        on_arrays = evaluated(expression.root, g, theta, eta=1.0)
        (moved,) = on_tensors(expression, 1.0, torch.tensor(g)[None], torch.tensor(theta)[None])
        size = np.linalg.norm(g) or 1.0
        for change in (on_arrays, moved.numpy()):
            assert change == pytest.approx(-g / size)


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


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_degree_is_that_of_the_depth(name):
    selection = Selection(optimizer=name)
    p = law(selection.the_optimizer).p
    assert role_table(selection, "batch").row("query").rate == B ** ((1 + p) / 2)
    still = role_table(selection, "batch", gradient_noise=NO_NOISE)
    assert {r.rate for r in still.rows if not r.refused} == {ONE}  # stability binds
    assert still.row("query").decay == B


@pytest.mark.parametrize("name", [n for n, o in OPTIMIZERS.items() if o.averaged])
def test_an_average_of_one_gradient_gives_the_first_step(name):
    """Up to a number, such as the share of a first gradient in what is kept."""
    (g, theta), one = unit_pair(), OPTIMIZERS[name]
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
