"""The proof of a table in width: it holds, and a planted error in any of its numbers is refuted."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from deepnet_theory.cli.deriving import derive
from deepnet_theory.definitions.expression import PRACTICE, UPDATE
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof import explicit
from deepnet_theory.proof.width import NUMBERS, of_dimension
from deepnet_theory.sizes import width as table_room
from deepnet_theory.sizes.monomial import Monomial
from deepnet_theory.sizes.width import texts

D = Monomial.of("d")
QUARTER = D ** Fraction(1, 4)
PROVED = (
    ("sgd", "forward", "full"),
    ("lamb", "weights", "full"),
    ("adafactor", "forward", "full"),
    ("adam", "forward", "none"),
    ("muon-h", "weights", "full"),
    ("-eta*norm(theta)*sign(g)", "forward", "full"),
    ("-eta*max(rms(theta), 1/1000)*sign(g)", "forward", "full"),  # the floor wins in the end
    ("-eta*g**3/norm(g)**2", "forward", "full"),
    ("-eta*g**3*sqrt(norm(g))/rms(g)", "forward", "none"),
)  # fmt: skip
PLANTED = ("sgd", "lamb")


def refuted(derivation):
    return {fact.of for fact in derivation.measured if fact.verdict is Verdict.REFUTED}


def with_row(table, role, **numbers):
    """A table in which one role's numbers are others."""
    rows = tuple(replace(r, **numbers) if r.role == role else r for r in table.rows)
    return replace(table, rows=rows)


@pytest.mark.parametrize(("optimizer", "form", "alignment"), PROVED)
def test_a_table_is_proved(optimizer, form, alignment):
    derivation = derive(optimizer, form=form, alignment=alignment, across="width")
    assert (derivation.verdict, derivation.exit_code) == (Verdict.PROVED, 0), derivation.shown


@pytest.mark.parametrize("optimizer", PLANTED)
def test_an_error_in_any_number_of_a_table_is_refuted(optimizer):
    """In all roles at once, each by its own fact; the head's apart, which all others are behind."""
    right = derive(optimizer, across="width")
    for number, behind in product(NUMBERS, (True, False)):
        rows = [
            replace(r, **{number: (getattr(r, number) or D) * QUARTER})
            if (r.role in ("head", "tied-head")) is not behind
            else r
            for r in right.table.rows
        ]
        wrong = refuted(replace(right, table=replace(right.table, rows=tuple(rows))))
        seen = {of.split("/")[-2] for of in wrong if of.endswith(f"/{number}")}
        planted = {r.role for r, was in zip(rows, right.table.rows, strict=True) if r != was}
        assert planted <= seen, (number, planted - seen)


@pytest.mark.parametrize(
    ("field", "by"),
    [("entry", "in"), ("entry", "theta"), ("action", "g"), ("action", "in")],
)
def test_a_wrong_law_of_an_update_is_refuted(monkeypatch, field, by):
    right = table_room.step

    def wrong(*given):
        own = right(*given)
        return replace(own, **{field: getattr(own, field) * Monomial.of(by) ** Fraction(1, 4)})

    monkeypatch.setattr(table_room, "step", wrong)
    number = {"entry": "update", "action": "action"}[field]
    assert any(of.endswith(f"fc1/{number}") for of in refuted(derive("adam", across="width")))


def test_a_parity_that_is_wrong_is_refuted(monkeypatch):
    right = table_room.step
    of = Selection(update="-eta*abs(theta)*sign(g)").the_optimizer
    monkeypatch.setattr(table_room, "step", lambda _, *given: right(of, *given))
    wrong = refuted(derive("-eta*theta*sign(g)", across="width"))
    assert any(one.endswith("fc1/action") for one in wrong)
    assert not any(one.endswith("fc1/update") for one in wrong)


def test_what_stays_at_zero_and_one_matrix_of_two_rates_are_refused_and_seen():
    still = derive("-eta*norm(theta)*sign(g)", across="width")
    assert still.table.row("fc1-bias").refused
    two = derive("-eta*(sign(theta) + sign(g)/columns(theta))", across="width")
    assert two.verdict is Verdict.PROVED and two.table.row("tied-head").refused
    adam = derive("adam", across="width")
    for right, role in ((still, "fc1-bias"), (two, "tied-head")):
        for planted in (
            with_row(right.table, role, refused=None, rate=Monomial()),
            with_row(adam.table, role, refused=right.table.row(role).refused),
        ):
            assert replace(right, table=planted).verdict is Verdict.REFUTED


def test_width_and_depth_together():
    right = derive("adam", across="both")
    assert right.verdict is Verdict.PROVED, right.shown
    for number in ("init", "rate", "epsilon", "decay"):
        value = getattr(right.table.row("fc1"), number)
        wrong = replace(right, table=with_row(right.table, "fc1", **{
            number: value * Monomial.of("N") ** Fraction(1, 16)}))  # fmt: skip
        assert any(of.endswith(f"fc1/{number}") for of in refuted(wrong)), number
    bare = of_dimension(right.table, "width")
    held = {s for n in NUMBERS if (v := getattr(bare.row("fc1"), n)) for s in v.symbols}
    assert held == {"d"}


def test_plain_data():
    adam = derive("adam", across="width")
    data = json.loads(adam.to_json())
    assert data["schema"] == "deepnet-theory/derivation/1"
    assert (data["across"], data["alignment"], data["form"]) == ("width", "full", "forward")
    assert (data["rule"], data["verdict"]) == ([], "PROVED")
    assert data["roles"] == [texts(row) for row in adam.table.rows]
    assert {fact["verdict"] for fact in data["measured"]} == {"MEASURED"}
    assert data["steps"] == [] and {"name", "statement"} == set(data["assumptions"][0])


def test_a_share_that_falls_with_the_depth_is_plain_data():
    derivation = derive(Selection("sgd", layer="attention-gated,ffn-swiglu"), across="both")
    falls = {row["starved"] for row in derivation.to_dict()["roles"]} - {None}
    said = {f["says"] for f in derivation.to_dict()["measured"] if f["of"].endswith("/starved")}
    assert falls and falls <= said and json.dumps(derivation.to_dict())


@pytest.mark.parametrize("practice", ["g/(abs(g) + 3*epsilon)", "g/sqrt(g**2 + 9*epsilon**2)"])
def test_the_epsilon_that_is_measured_is_as_large_as_what_stands_beside_it(practice):
    beside = explicit.beside_epsilon(PRACTICE.parse(practice).root)
    assert beside is not None
    assert explicit.as_large(beside, *np.full((2, 2, 3), 1.5)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ("-eta*max(rms(theta), 1/1000)*g", "-eta*max(rms(theta), 1)*g"),
        ("-eta*clip(g/rms(g), -2, 3)", "-eta*clip(g/rms(g), -1, 1)"),
        ("-eta*min(max(norm(g), 2), 0)*g", "-eta*min(max(norm(g), 1), 0)*g"),
        ("-eta*g*max(2, 3)", "-eta*g*max(2, 3)"),  # a number itself
    ],
)
def test_at_large_widths_a_bound_is_its_sign(typed, taken):
    of, other = (UPDATE.parse(text).root for text in (typed, taken))
    assert explicit.at_large_widths(of) == other


@pytest.mark.parametrize("seed", [0, 1])
def test_the_pair_of_an_update_has_each_sign_of_both_as_often(seed):
    signs = np.sign(explicit.unit_pair(seed))
    assert np.linalg.norm(explicit.unit_pair(seed), axis=(1, 2)) == pytest.approx(1.0)
    assert not signs.sum(axis=(1, 2)).any() and len({*zip(*signs.reshape(2, -1), strict=True)}) == 4
