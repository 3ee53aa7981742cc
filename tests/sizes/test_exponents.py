"""Predicted exponents: the cross table, and rules of your own."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.optimizer import optimizers
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import Placement
from deepnet_theory.definitions.rule import own_rule
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.exponents import Exponents, cross_table, predictions
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts


@pytest.fixture(scope="module")
def crossed():
    return cross_table(optimizers())


def derived(selection):
    return texts(solve_rule(selection))


def exponent(selection, alpha, beta, step="matrices"):
    rule = own_rule(("encoder",), alpha, beta)
    return Exponents(selection, rule).all(step)[("N", "all")]


def test_the_cross_table_is_the_sum_of_increments(crossed):
    # by hand, with λ and α of Su's table: S (λ/α)^(1+p) λ^q, in powers of S = 2N
    lam = {"sgd": Fraction(-1, 4), "adam": Fraction(-1, 2), "lamb": Fraction(-1, 2)}
    al = {"sgd": Fraction(1, 4), "adam": Fraction(1, 2), "lamb": Fraction(0)}
    pq = {"sgd": (1, 0), "adam": (0, 0), "lamb": (0, 1)}
    for rule in lam:
        for under, (p, q) in pq.items():
            by_hand = 1 + (lam[rule] - al[rule]) * (1 + p) + lam[rule] * q
            assert crossed[rule, under] == by_hand
    assert {exponent for (rule, under), exponent in crossed.items() if rule == under} == {0}


def test_a_rule_of_ones_own_is_told_where_rho_grows():
    """|W| = N^(-1/2) and a sign step: rho = N^(1/2), in each branch of several matrices."""
    adam, small = Selection(optimizer="adam"), own_rule(("encoder",), "1", "N**(-1/2)")
    assert "scaled matrices grows as N^(1/2): " in Exponents(adam, small).unstable
    assert Exponents(adam, own_rule(("encoder",), "N", "1")).unstable == ""


@settings(max_examples=30)
@given(
    st.fractions(min_value=0, max_value=2, max_denominator=8),
    st.fractions(min_value=-2, max_value=0, max_denominator=8),
)
def test_own_rules_have_the_exponent_of_the_formula(a, b):
    found = exponent(Selection(optimizer="adam"), f"N**({a})", f"N**({b})")
    # through the scaled matrices, or, with gain above, through query and key
    assert found == max(1 + b - a, 1 + 2 * b - a)


def test_plain_stacks_grow_and_neither_a_constant_nor_a_logarithm_has_a_power():
    for name, pre in (("sgd", 0), ("adam", Fraction(1, 2)), ("lamb", Fraction(1, 2))):
        assert exponent(Selection(optimizer=name), "1", "1") == 1
        assert exponent(Selection(optimizer=name, placement="pre-ln"), "1", "1") == pre
        rule = derived(Selection(optimizer=name))  # stepping all parameters unbalances it
        assert Exponents(Selection(optimizer=name), rule).all("all")[("N", "all")] == 1
    adam = Selection(optimizer="adam")
    own = derived(adam).entries[0]
    assert exponent(adam, f"7*{own.alpha}", f"{own.beta}/3") == 0
    assert exponent(adam, "sqrt(2*N)*log(N + 2)", "1/sqrt(2*N)") == 0


def test_predictions_carry_rivals_and_warn_where_the_identity_is_left(crossed):
    selection = Selection(optimizer="sgd")
    right = predictions(selection, derived(selection))
    rivals = {name: crossed[name, "sgd"] for name in ("adam", "lamb")}
    assert dict(right.exponents[0].rivals) == rivals and not right.warnings
    assert predictions(selection, own_rule(("encoder",), "1", "1")).warnings


def test_an_own_rule_keeps_the_size_of_a_stream_that_no_norm_takes_back(monkeypatch):
    mine = Placement("mine", "alpha*x + branch(norm(x))", final_norm=True)
    monkeypatch.setattr("deepnet_theory.definitions.placement.placements", lambda: {"mine": mine})
    selection = Selection(optimizer="adam", placement="mine")
    for wrong in ("2*N", "2", "1/2", "1 + 1/sqrt(N)"):
        with pytest.raises(Refusal, match="the coefficient of x must be 1"):
            exponent(selection, wrong, "1")
    assert exponent(selection, "1", "1/N") == exponent(selection, "N/N", "1/N") == 0


def test_encoder_and_decoder_have_their_own_shares():
    # by hand: A = √M c with c = λ²/α of the decoder, (1 + p) times, and the encoder's own M
    shares = {
        "sgd": 2 * (Fraction(1, 2) - Fraction(3, 4)) - Fraction(1, 4),
        "adam": Fraction(1, 2) - Fraction(3, 2),
        "lamb": Fraction(1, 2) - 1,
    }
    for name, in_m in shares.items():
        selection = Selection(optimizer=name, stack="encoder-decoder", closure="published")
        found = Exponents(selection, derived(selection)).all()
        assert found[("N", "encoder")] == found[("M", "decoder")] == 0
        assert found[("N", "all")] == found[("M", "all")] == 0
        assert found[("M", "encoder")] == in_m


@pytest.mark.parametrize("name", ["sgd", "adam", "lamb"])
def test_a_growing_decoder_divides_what_the_encoder_sends(name):
    """Under plain pre-LN A = √M c/X_M = 1: the encoder's share stays as it is in M."""
    selection = Selection(optimizer=name, placement="pre-ln", stack="encoder-decoder")
    plain = own_rule(("encoder", "decoder"), "1", "1")
    assert Exponents(selection, plain).all()["M", "encoder"] == 0
