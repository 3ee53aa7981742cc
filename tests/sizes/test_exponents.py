"""Predicted exponents of rules and of schemes, beside sums that are done by hand."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.definitions.optimizer import OPTIMIZERS, custom_optimizer, optimizer
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.definitions.placement import PLACEMENTS, Placement
from deepnet_theory.definitions.rule import RuleEntry, own_rule
from deepnet_theory.definitions.scheme import Scheme, scheme
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.sizes.exponents import (
    Exponents,
    cross_table,
    judge,
    predictions,
    scheme_predictions,
)
from deepnet_theory.sizes.rule import solve_rule
from deepnet_theory.sizes.table import texts


@pytest.fixture(scope="module")
def crossed():
    return cross_table(OPTIMIZERS)


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
    monkeypatch.setattr("deepnet_theory.definitions.placement.PLACEMENTS", {"mine": mine})
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
        # a growing decoder divides what the encoder sends: under plain pre-LN A = √M c/X_M = 1
        plain = own_rule(("encoder", "decoder"), "1", "1")
        assert Exponents(replace(selection, placement="pre-ln"), plain).all()["M", "encoder"] == 0


def trial(name, under):
    return judge(scheme(name), optimizer(under)).parts[0]


# (scheme, optimizer): first order, rho. Each row is a sum that is done by hand.
BY_HAND = {
    # fc2 is fed by fc1 of gain 1 and stands in a stream of order 1: N sublayers of |grad| = 1;
    # its own size is (2N)^(-1/2). Gains: Radford et al. 2019, §2.3
    ("gpt-2", "adam"): (Fraction(1), Fraction(1, 2)),
    ("gpt-2", "sgd"): (Fraction(1), Fraction(1, 2)),
    # |theta| = (2N)^(-1/2) takes the square root back
    ("gpt-2", "lamb"): (Fraction(1, 2), Fraction(0)),
    # 2N (v^2 + w^2)/alpha^2 = 1: DeepNet, arXiv 2203.00555, §4.2
    ("deepnorm", "sgd"): (Fraction(0), Fraction(-1, 4)),
    # N times beta/alpha = N^(-1/2); 1/beta
    ("deepnorm", "adam"): (Fraction(1, 2), Fraction(1, 4)),
    # N times (2N)^(-1/2)/(2N)^(1/2): GLM-130B, arXiv 2210.02414
    ("deepnorm-glm", "adam"): (Fraction(0), Fraction(1, 2)),
    ("deepnorm-glm", "sgd"): (Fraction(-1), Fraction(-1, 2)),
    # N times N^(-1/2) of the branch and N^(-1/2) of the rate: arXiv 2310.02244
    ("depth-mup", "adam"): (Fraction(0), Fraction(-1, 2)),
    # N times (N^(-1/2))^2, the rate as it is
    ("depth-mup-sgd", "sgd"): (Fraction(0), Fraction(-1, 2)),
    # N times 1/N, the relative update constant: "complete", arXiv 2505.01618
    ("completep", "adam"): (Fraction(0), Fraction(0)),
    ("completep", "sgd"): (Fraction(-1), Fraction(-1)),
    # N times N^(-1/4) of the other matrix and N^(-1/4) of the stream, squared under SGD:
    # Huang et al. 2020
    ("t-fixup", "sgd"): (Fraction(0), Fraction(-1, 4)),
    ("t-fixup", "adam"): (Fraction(1, 2), Fraction(1, 4)),
    # pre-LN with gain 1: the sum of l^(-1/2) under Adam, of 1/l under SGD
    ("gpt-neox-small", "adam"): (Fraction(1, 2), None),
    ("gpt-neox-small", "sgd"): (Fraction(0), None),
}


@pytest.mark.parametrize(("name", "under"), BY_HAND)
def test_the_exponents_are_those_of_the_sum_by_hand(name, under):
    found = trial(name, under)
    first, relative = BY_HAND[name, under]
    assert found.first == first and (relative is None or found.relative == relative)


@pytest.mark.parametrize("under", ["sgd", "adam", "lamb"])
@pytest.mark.parametrize("where", [*PLACEMENTS])
def test_a_rule_as_a_scheme_moves_the_output_as_the_rule_does(where, under):
    """One beta for all matrices is a special case of a gain for each."""
    selection = Selection(optimizer=under, placement=where)
    derived = [texts(solve_rule(replace(selection, optimizer=of))) for of in ("sgd", "adam")]
    grows = (own_rule(("encoder",), "1", beta) for beta in ("1", "N**(-1/8)"))
    for rule in (*derived, *grows):
        entry = rule.entries[0]
        gains = dict.fromkeys(("value", "output", "fc1", "fc2"), entry.beta)
        given, placed = made("x", entry.alpha, gains), PLACEMENTS[where]
        given = replace(given, rates={"scaled": entry.rate})
        given = replace(given, equation=placed.equation, final_norm=placed.final_norm)
        (found,) = judge(given, optimizer(under)).parts
        assert found.first == Exponents(selection, rule).all()["N", "all"]


@pytest.mark.parametrize(
    ("a", "b"), [("1/8", "0"), ("0", "1/4"), ("1/4", "-1"), ("1", "-1"), ("1/4", "1/8"), ("0", "0")]
)
def test_the_exponents_are_the_slopes_of_the_sums(a, b):
    """X² = 1 + Σ b², and Σ (b/X)^(1+p): at p > 1 layers within the stack decide."""
    powers = ("0", "1/2", "2")  # a sum of 1/l at 1 is a logarithm

    def sums(depth):
        layer = np.arange(1.0, depth + 1)
        added = float(depth) ** -float(Fraction(a)) * layer ** -float(Fraction(b))
        stream = np.sqrt(1 + np.cumsum(added**2))
        moved = [np.sum((added / stream) ** float(1 + Fraction(p))) for p in powers]
        return np.array([stream[-1], *moved])

    grown, *moved = np.log(sums(2**21) / sums(2**17)) / np.log(2**4)
    for p, slope in zip(powers, moved, strict=True):
        by = custom_optimizer(f"-eta*sign(g)*abs(g)**({p})")
        (found,) = judge(made("x + branch(norm(x))/alpha", f"N**({a})*l**({b})"), by).parts
        assert [float(found.grown), float(found.first)] == pytest.approx([grown, slope], abs=0.05)
        if b == "0":  # S*r and S*r^2: the sums of l^(-1/2) and of 1/l
            assert (found.aligned, found.independent) == (Fraction(1, 2), 0)


def test_a_branch_behind_a_norm_forgets_the_stream_that_grows():
    """Any matrix moves a normalised branch by 1, and the output by the sum of l^(-1/2)."""
    (found,) = judge(made("x + norm(branch(x))", "1"), optimizer("adam")).parts
    assert {m.total for m in found.moved} == {Fraction(1, 2)}


def test_a_matrix_at_zero_passes_no_gradient_and_has_one():
    moved = {m.name for m in trial("zero-outputs", "adam").moved}
    assert {"output", "fc2"} <= moved and not {"query", "key", "value", "fc1"} & moved


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("alpha*x + branch(norm(x))", "2*N"), "explodes"),
        (("alpha*x + branch(norm(x))", "1 + 1/sqrt(N)"), "explodes"),
        (("x/alpha + branch(norm(x))", "2"), "vanishes"),
        (("x + branch(x)", "1", None, False), "explodes"),
    ],
)
def test_what_cannot_be_judged_is_refused(given, says):
    with pytest.raises(Refusal, match=says):
        judge(made(*given), optimizer("adam"))
    (convex,) = judge(made("(1 - 1/alpha)*x + branch(x)/alpha", "2*N"), optimizer("adam")).parts
    assert convex.grown == 0, "S factors of 1 - 1/S have a number as their product"


def made(equation, alpha="1", gains=None, final_norm=True):
    part = RuleEntry("encoder", alpha=alpha, gains=gains or {})
    return Scheme("planted", equation, final_norm, optimizer="adam", parts=(part,))


def test_a_judgement_warns_of_growing_rho_and_takes_an_update_of_ones_own():
    assert any("rho" in warning for warning in judge(scheme("gpt-2")).warnings)
    assert not judge(scheme("completep")).warnings
    found = judge(scheme("deepnorm"), custom_optimizer("-eta*sign(g)*abs(g)**(1/2)"))
    assert found.parts[0].first == Fraction(1, 4)  # N times (beta/alpha)^(3/2)


def test_a_scheme_of_one_part_is_predicted_beside_the_derived_rules():
    one = scheme_predictions(scheme("deepnorm"), Selection(optimizer="adam"))
    (only,) = one.exponents
    assert only.predicted == Fraction(1, 2) and {name for name, _ in only.rivals} == {"sgd", "lamb"}
    two = Selection(optimizer="adam", stack="encoder-decoder")
    parts = scheme_predictions(scheme("deepnorm-encoder-decoder"), two).exponents
    assert {(p.variable, p.share, p.predicted is None) for p in parts} == {
        ("N", "encoder", False), ("M", "decoder", False), ("N", "decoder", True),
        ("M", "encoder", True),
    }  # fmt: skip
