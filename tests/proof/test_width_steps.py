"""The proof of a table in width: it holds, and every planted error in it is refused."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from deepnet_theory.cli.deriving import derive_across
from deepnet_theory.definitions.expression import PRACTICE
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof import width as laws
from deepnet_theory.proof import widths
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.width import width_table

D = Monomial.of("d")
d = sp.Symbol("d", positive=True)
NUMBERS = tuple(laws.SYMBOLS)


@pytest.fixture(scope="module")
def adam():
    return derive_across("adam")


@pytest.fixture(scope="module")
def muon():
    return derive_across("muon")


def with_row(table, role, **numbers):
    """A table in which one role's numbers are others."""
    rows = tuple(replace(r, **numbers) if r.role == role else r for r in table.rows)
    return replace(table, rows=rows)


PROVED = (
    ("sgd", "forward", "full"),
    ("lamb", "weights", "full"),
    ("adafactor", "forward", "full"),
    ("adam", "forward", "none"),
    ("muon-h", "weights", "full"),
    ("muon-split", "forward", "full"),
    ("muon-split", "weights", "full"),
)


@pytest.mark.parametrize(("optimizer", "form", "alignment"), PROVED)
def test_a_table_is_proved(optimizer, form, alignment):
    derivation = derive_across(optimizer, form=form, alignment=alignment)
    assert (derivation.verdict, derivation.exit_code) == (Verdict.PROVED, 0), derivation.shown


HEAVY = (
    "g**3/norm(g)**2",
    "g**5/norm(g)**4",
    "g**3*sqrt(norm(g))/rms(g)",
    "g**3/rms(g)/norm(g)**2",
)


@pytest.mark.parametrize("update", HEAVY)
@pytest.mark.parametrize("alignment", ["full", "none"])
def test_a_power_of_the_gradient_is_proved_whatever_its_tail(update, alignment):
    derivation = derive_across(Selection(update=f"-eta*{update}"), alignment=alignment)
    assert derivation.verdict is Verdict.PROVED, derivation.shown


def test_what_is_proved_rests_on_earlier_steps(muon):
    assert muon.verdict is Verdict.PROVED, muon.shown
    earlier = set()
    for step in muon.steps:
        assert set(step.uses) <= earlier
        assert (muon.verdicts[step.name] is Verdict.PROVED) == bool(step.uses)
        assert step.name not in earlier
        earlier.add(step.name)
    assert {v.value for v in muon.verdicts.values()} == {"IMPOSED", "MEASURED", "PROVED"}


def test_every_step_is_refuted_where_it_is_wrong(muon):
    for step in muon.steps:
        wrong = replace(step, rhs=step.rhs * d ** sp.Rational(1, 4) if step.rhs else sp.Integer(1))
        assert wrong.check() is Verdict.REFUTED, step.name


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_of_the_table_that_no_step_ends_in_is_refuted(adam, number):
    for role in ("token-embedding", "fc1", "head"):
        value = getattr(adam.table.row(role), number)
        for planted in (None if value else D, (value or D) * D ** Fraction(1, 4)):
            if planted == value:
                continue
            wrong = replace(adam, table=with_row(adam.table, role, **{number: planted}))
            wrong.__dict__["steps"], wrong.__dict__["verdicts"] = adam.steps, adam.verdicts
            assert (wrong.verdict, wrong.exit_code) == (Verdict.REFUTED, 1)
            assert f"{number} of {role}" in wrong.shown
            assert str(value) in wrong.shown
            assert str(planted) in wrong.shown


@pytest.mark.parametrize(
    ("number", "planted"),
    [("update", "in"), ("update", "theta"), ("action", "g"), ("action", "in")],
)
def test_a_wrong_law_of_an_update_is_refuted(monkeypatch, number, planted):
    right = laws.size_of_step
    field = {"update": "entry", "action": "action"}[number]

    def wrong(*given):
        own = right(*given)
        if "theta" not in given[1]:
            return own
        return replace(own, **{field: getattr(own, field) * Monomial.of(planted) ** Fraction(1, 4)})

    monkeypatch.setattr(laws, "size_of_step", wrong)
    derivation = derive_across("lamb")
    refuted = {n for n, v in derivation.verdicts.items() if v is Verdict.REFUTED}
    assert derivation.verdict is Verdict.REFUTED
    assert f"{number}-hidden" in refuted


def test_a_parity_that_is_wrong_is_refuted(monkeypatch):
    right = laws.size_of_step
    of = Selection(update="-eta*abs(theta)*sign(g)").the_optimizer
    monkeypatch.setattr(laws, "size_of_step", lambda _, *given: right(of, *given))
    derivation = derive_across("-eta*theta*sign(g)")
    assert derivation.verdicts["action-hidden"] is Verdict.REFUTED
    assert derivation.verdicts["update-hidden"] is Verdict.MEASURED


def test_a_wrong_epsilon_is_refuted(monkeypatch):
    right = laws.epsilon

    def wrong(*given):
        found = right(*given)
        return None if found is None else found * D ** Fraction(1, 4)

    monkeypatch.setattr(laws, "epsilon", wrong)
    derivation = derive_across("adam")
    assert derivation.verdicts["epsilon-hidden"] is Verdict.REFUTED


def test_what_stays_at_zero_is_a_step():
    derivation = derive_across("-eta*norm(theta)*sign(g)")
    step = derivation.step("update-bias")
    assert (step.rhs, derivation.verdicts[step.name]) == (0, Verdict.MEASURED)
    assert derivation.verdict is Verdict.PROVED
    assert not any(s.name == "rate-bias" for s in derivation.steps)


def test_a_tied_head_asks_for_two_rates(adam, muon):
    """One matrix has one update, whose entries move the embedding. It moves a head's logits alike
    where it is aligned with the head's inputs; theta is not.
    """
    assert adam.step("rates-tied").rhs == muon.step("rates-tied").rhs == 1
    two = derive_across("-eta*(sign(theta) + sign(g)/columns(theta))")
    assert two.step("rates-tied").rhs == d ** sp.Rational(-1, 2)
    assert two.verdict is Verdict.PROVED
    one_rate = with_row(two.table, "tied-head", rate=Monomial(), refused=None)
    assert replace(two, table=one_rate).verdict is Verdict.REFUTED
    wrong = with_row(muon.table, "tied-head", rate=Monomial())
    assert replace(muon, table=wrong).verdict is Verdict.REFUTED


def test_no_gauge_changes_the_invariants(adam):
    weights = derive_across("adam", form="weights")
    for name in ("invariant-hidden", "invariant-head", "invariant-vector"):
        one, other = adam.step(name), weights.step(name)
        assert (one.lhs, one.rhs) == (other.lhs, other.rhs)
        assert not any(used.startswith("gauge") for used in one.uses)


def test_width_and_depth_together():
    derivation = derive_across("adam", "both")
    assert derivation.verdict is Verdict.PROVED, derivation.shown
    assert {step.name for step in derivation.depth.steps} < {s.name for s in derivation.steps}
    row = derivation.table.row("fc1")
    assert row.decay is not None
    wrong = replace(
        derivation, table=with_row(derivation.table, "fc1", decay=row.decay * Monomial.of("N"))
    )
    assert wrong.disagreements
    assert wrong.verdict is Verdict.REFUTED


def test_plain_data(adam):
    data = json.loads(adam.to_json())
    assert data["schema"] == "deepnet-theory/derivation/1"
    assert (data["across"], data["alignment"], data["form"]) == ("width", "full", "forward")
    assert (data["rule"], data["verdict"]) == ([], "PROVED")
    assert data["roles"] == [row.texts() for row in adam.table.rows]
    assert {s["verdict"] for s in data["steps"]} == {"IMPOSED", "MEASURED", "PROVED"}
    assert [a["name"] for a in data["assumptions"]][-1] == "bounded-loss-gradient"
    assert all(symbol["meaning"] for symbol in data["symbols"])


def test_what_is_asked_for_is_refused_where_it_is_incomplete():
    for given, says in (
        ({"depth": 4}, "needs across both"),
        ({"width": 64}, "missing: base width$"),
        ({"across": "both", "width": 64, "base_width": 32}, "missing: depth, base depth$"),
        ({"across": "depth"}, "width, both"),
    ):
        with pytest.raises(InputError, match=says):
            derive_across("adam", **given)
    table = width_table(Selection(optimizer="adam"))
    assert derive_across("adam", width=64, base_width=32).table.rows == table.rows


def test_a_wrong_softmax_would_be_seen(monkeypatch):
    assert widths.key_bias_is_idle()
    monkeypatch.setattr(widths.np, "exp", lambda of: of**2)
    assert not widths.key_bias_is_idle()


@pytest.mark.parametrize("practice", ["g/(abs(g) + 3*epsilon)", "g/sqrt(g**2 + 9*epsilon**2)"])
def test_the_epsilon_that_is_measured_is_as_large_as_what_stands_beside_it(practice):
    beside = widths.beside_epsilon(PRACTICE.parse(practice).root)
    assert beside is not None
    g = np.full((2, 3), 1.5)
    assert widths._beside(beside, {"g": g}) == pytest.approx(0.5)


def test_the_rate_of_a_key_bias_is_measured():
    right = derive_across("adafactor")
    assert right.verdict is Verdict.PROVED
    wrong = replace(right, table=with_row(right.table, "key-bias", rate=D))
    assert wrong.verdict is Verdict.REFUTED and "rate of key-bias" in wrong.disagreements[0]
