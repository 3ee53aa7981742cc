"""Predicted exponents: the cross table, and rules of one's own."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.sizes.exponents import Exponents, cross_table, predictions
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts
from deepnet_theory.spec.errors import Refusal
from deepnet_theory.spec.placement import Placement
from deepnet_theory.spec.rule import own_rule
from deepnet_theory.spec.selection import Selection

TABLE = cross_table()


def derived(selection):
    return texts(solve_rule(selection))


def exponent(selection, alpha, beta, step="matrices"):
    rule = own_rule(("encoder",), alpha, beta)
    return Exponents(selection, rule).all(step)[("N", "all")]


def test_every_optimizer_balances_its_own_rule():
    assert not TABLE.refused
    for name in TABLE.rules:
        assert TABLE.cell(name, name).balanced
    assert TABLE.cell("lamb", "sgd").balanced and not TABLE.cell("sgd", "lamb").balanced


def test_the_cross_table_is_the_sum_of_increments():
    # by hand, with λ and α of Su's table: S (λ/α)^(1+p) λ^q, in powers of S = 2N
    lam = {"sgd": Fraction(-1, 4), "adam": Fraction(-1, 2), "lamb": Fraction(-1, 2)}
    al = {"sgd": Fraction(1, 4), "adam": Fraction(1, 2), "lamb": Fraction(0)}
    pq = {"sgd": (1, 0), "adam": (0, 0), "lamb": (0, 1)}
    for rule in lam:
        for under, (p, q) in pq.items():
            by_hand = 1 + (lam[rule] - al[rule]) * (1 + p) + lam[rule] * q
            assert TABLE.cell(rule, under).exponents["N"] == by_hand


@pytest.mark.parametrize("w", [Fraction(0), Fraction(1, 8), Fraction(1, 4)])
@pytest.mark.parametrize(("optimizer", "p", "q"), [("sgd", 1, 0), ("adam", 0, 0), ("lamb", 0, 1)])
def test_a_stream_that_grows_shrinks_the_sum(optimizer, p, q, w):
    """Two matrices of size N^(-w): G = N^(-w)/X_l of each, X_l^2 = 1 + l N^(-4w), and G^(1+p) |W|^q
    is summed over the layers."""
    selection = Selection(optimizer=optimizer, placement="pre-ln", layer="ffn")
    grows = 1 - 4 * w  # X_N^2
    by_hand = 1 - w * (1 + p + q) - grows * Fraction(1 + p, 2)
    assert exponent(selection, "1", f"N**(-{w})") == by_hand


def test_a_rule_of_ones_own_is_told_where_rho_grows():
    """|W| = N^(-1/2) and a sign step: rho = N^(1/2), in each branch of several matrices."""
    adam, small = Selection(optimizer="adam"), own_rule(("encoder",), "1", "N**(-1/2)")
    unstable = Exponents(adam, small).unstable()
    assert "N^(1/2) in attention of the encoder, N^(1/2) in ffn" in unstable
    assert Exponents(adam, own_rule(("encoder",), "N", "1")).unstable() == ""


@given(
    st.fractions(min_value=0, max_value=2, max_denominator=8),
    st.fractions(min_value=-2, max_value=0, max_denominator=8),
)
def test_own_rules_have_the_exponent_of_the_formula(a, b):
    found = exponent(Selection(optimizer="adam"), f"N**({a})", f"N**({b})")
    # through the scaled matrices, or, with gain above, through query and key
    assert found == max(1 + b - a, 1 + 2 * b - a)


def test_plain_post_ln_grows_with_depth_and_a_constant_changes_nothing():
    for name in ("sgd", "adam", "lamb"):
        assert exponent(Selection(optimizer=name), "1", "1") == 1
    own = derived(Selection(optimizer="adam")).entries[0]
    assert exponent(Selection(optimizer="adam"), f"7*{own.alpha}", f"{own.beta}/3") == 0


def test_plain_pre_ln_grows_under_adam_only():
    plain = {
        n: exponent(Selection(optimizer=n, placement="pre-ln"), "1", "1") for n in ("sgd", "adam")
    }
    assert plain == {"sgd": 0, "adam": Fraction(1, 2)}


def test_stepping_all_parameters_unbalances_the_published_rules():
    for name in ("sgd", "adam", "lamb"):
        rule = derived(Selection(optimizer=name))
        assert Exponents(Selection(optimizer=name), rule).all("all")[("N", "all")] == 1


def test_a_logarithm_has_exponent_zero_and_an_exponential_is_refused():
    assert exponent(Selection(optimizer="adam"), "sqrt(2*N)*log(N + 2)", "1/sqrt(2*N)") == 0


def test_predictions_carry_the_rivals_of_the_other_optimizers():
    selection = Selection(optimizer="sgd")
    found = predictions(selection, derived(selection)).exponents[0]
    assert dict(found.rivals) == {
        name: TABLE.cell(name, "sgd").exponents["N"] for name in ("adam", "lamb")
    }


def test_an_own_rule_that_leaves_the_identity_is_warned_of():
    selection = Selection(optimizer="sgd")
    assert predictions(selection, own_rule(("encoder",), "1", "1")).warnings
    assert not predictions(selection, derived(selection)).warnings


def test_an_own_rule_keeps_the_size_of_a_stream_that_no_norm_takes_back(monkeypatch):
    mine = Placement("mine", "alpha*x + branch(norm(x))", final_norm=True)
    monkeypatch.setattr("deepnet_theory.spec.placement.placements", lambda: {"mine": mine})
    selection = Selection(optimizer="adam", placement="mine")
    for wrong in ("2*N", "2", "1/2", "1 + 1/N"):
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
        selection = Selection(optimizer=name, stack="encoder-decoder")
        found = Exponents(selection, derived(selection)).all()
        assert found[("N", "encoder")] == found[("M", "decoder")] == 0
        assert found[("N", "all")] == found[("M", "all")] == 0
        assert found[("M", "encoder")] == in_m


def test_alignment_of_the_cross_attentions_is_offered_as_a_rival():
    selection = Selection(optimizer="adam", stack="encoder-decoder")
    found = predictions(selection, derived(selection)).exponents
    encoder = next(p for p in found if (p.variable, p.share) == ("M", "encoder"))
    assert dict(encoder.rivals)["aligned cross-attentions"] - encoder.exponent == Fraction(1, 2)
