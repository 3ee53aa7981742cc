"""Tables by role in what grows: each is proved, and an error in any of its numbers is refuted."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from deepnet_theory.cli.deriving import derive
from deepnet_theory.definitions.expression import PRACTICE, UPDATE
from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.definitions.selection import ALIGNMENTS, GRADIENT_NOISE, SHAPES, Selection
from deepnet_theory.proof import explicit
from deepnet_theory.proof.width import NUMBERS
from deepnet_theory.sizes import width as table_room
from deepnet_theory.sizes.batch import POWERS
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.width import role_table, texts

MIXTURE = {"layer": "attention,ffn-swiglu@2/8"}
B, D, E, K, R = map(Monomial.of, "BdEKr")
OFF = {  # by what a number is off where this grows: from an eighth of a power on it is seen
    "width": (D ** Fraction(1, 4),),
    "depth": (Monomial.of("N") ** Fraction(1, 16), Monomial.number(2)),
    "batch": (B ** Fraction(1, 8),),
    **{shape: (Monomial.of(x) ** Fraction(1, 8),) for shape, x in SHAPES.items()},
}
# what grows, the optimizer or its update, and what else is given
PLANTED = (
    ("width", "sgd", {}),
    ("width", "lamb", {}),
    *((shape, "adam", MIXTURE) for shape in SHAPES),
    ("both,ffn", "adam", MIXTURE),
    ("width,experts,batch", "adam", MIXTURE),
    *(
        ("batch", update, {"gradient_noise": noise})
        for update in ("sgd", "adam", "-eta*norm(theta)*g")
        for noise in GRADIENT_NOISE
    ),
)
PROVED = (
    ("width", "lamb", {"form": "weights"}),
    ("width", "adafactor", {}),
    ("width", "adam", {"alignment": "none"}),
    ("width", "muon-h", {"form": "weights"}),
    ("width", "-eta*max(rms(theta), 1/1000)*sign(g)", {}),  # the floor wins in the end
    ("width", "-eta*g**3/norm(g)**2", {}),
    ("width", "-eta*g**3*sqrt(norm(g))/rms(g)", {"alignment": "none"}),
    *((shape, "adam", {"alignment": "none", **MIXTURE}) for shape in SHAPES),
    *(
        pytest.param(shape, optimizer, {"alignment": alignment, **MIXTURE}, marks=pytest.mark.slow)
        for shape in SHAPES
        for optimizer in ("sgd", "lamb", "muon", "lars")
        for alignment in ALIGNMENTS
    ),
    ("both", "adam", {}),
    ("both,experts,ffn", "adam", MIXTURE),
    ("width,rank,batch", "adam", MIXTURE),
    ("depth,width,batch", "adamw", {}),
    ("batch", "lamb", {}),
    ("batch", "muon", {}),
    ("batch", "-eta*(1 + norm(theta))*g", {}),
    *(("batch", "-eta*abs(theta)*sign(g)", {"gradient_noise": noise}) for noise in GRADIENT_NOISE),
)


def refuted(derivation):
    return {fact.of for fact in derivation.measured if fact.verdict is Verdict.REFUTED}


def with_rows(right, rows):
    """The derivation of a table whose rows are others."""
    return replace(right, table=replace(right.table, rows=tuple(rows)))


@pytest.mark.parametrize(("across", "update", "given"), (*PLANTED, *PROVED))
def test_a_table_is_proved(across, update, given):
    derivation = derive(update, across=across, **given)
    assert (derivation.verdict, derivation.exit_code) == (Verdict.PROVED, 0), derivation.shown
    assert all(f.holds for f in derivation.measured if f.of.endswith("fc1/batch/rate"))


def planted(row, number, by):
    """Another size; a refusal where there is none, and none where there is one."""
    own = getattr(row, number)
    if number == "refused":
        return replace(row, refused="because" if own is None else None)
    return replace(row, **{number: (own or ONE) * by})


@pytest.mark.parametrize(("across", "update", "given"), PLANTED)
def test_an_error_in_any_number_of_a_table_is_refuted(across, update, given):
    """In all roles at once, each by its own fact; in width the head's apart, before all others."""
    right = derive(update, across=across, **given)
    off = [by for name in right.table.dimensions for by in OFF[name]]
    names = POWERS if right.table.batch else NUMBERS
    if across == "batch":
        names = (*POWERS, "refused")
    behind = ("head", "tied-head") if across[:5] in ("width", "both,") else ()
    reads = [row.role in behind for row in right.table.rows]
    for (turn, number), one in product(enumerate(names), {*reads}):
        rows = [
            planted(row, number, off[(turn + place) % len(off)]) if reads[place] is one else row
            for place, row in enumerate(right.table.rows)
        ]
        wrong = {of for of in refuted(with_rows(right, rows)) if of.endswith(f"/{number}")}
        roles = {r.role for r, was in zip(rows, right.table.rows, strict=True) if r != was}
        assert roles <= {name for of in wrong for name in of.split("/")}, number


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
    two = derive("-eta*(sign(theta) + sign(g)/columns(theta))", across="width")
    adam = derive("adam", across="width")
    for right, role in ((still, "fc1-bias"), (two, "tied-head")):
        why = right.table.row(role).refused
        assert right.verdict is Verdict.PROVED and why
        for of, numbers in ((right, {"refused": None, "rate": ONE}), (adam, {"refused": why})):
            rows = (replace(r, **numbers) if r.role == role else r for r in of.table.rows)
            assert with_rows(right, rows).verdict is Verdict.REFUTED


def test_plain_data_is_what_programs_read():
    adam = derive("adam", across="width")
    data = json.loads(adam.to_json())
    assert data["schema"] == "deepnet-theory/derivation/1"
    assert (data["across"], data["alignment"], data["form"]) == ("width", "full", "forward")
    assert (data["rule"], data["verdict"]) == ([], "PROVED")
    assert data["roles"] == [texts(row) for row in adam.table.rows]
    assert {fact["verdict"] for fact in data["measured"]} == {"MEASURED"}
    assert data["steps"] == [] and {"name", "statement"} == set(data["assumptions"][0])
    # a share that falls with the depth, and the batch beside it
    gated = Selection("sgd", layer="attention-gated,ffn-swiglu")
    both = derive(gated, across="depth,batch", depth=24)
    data = json.loads(both.to_json())
    falls = {row["starved"] for row in data["roles"]} - {None}
    said = {fact["says"] for fact in data["measured"] if fact["of"].endswith("/starved")}
    assert falls and falls <= said and data["rule"][0]["alpha_value"]
    rows = [row.told(*POWERS) for row in both.table.batch.rows]
    assert data["batch"] == {"gradient_noise": "dominant", "roles": rows}
    assert {"part", "role", "refused", *POWERS} <= rows[0].keys()
    assert {"noise-dominated", "independent-samples"} <= {a["name"] for a in data["assumptions"]}


# ---- lists, experts and adapters ----


@pytest.mark.parametrize(
    ("across", "given", "error", "says"),
    [
        ("depth", {"form": "weights"}, InputError, "form was given without across width"),
        ("depth,heads", {}, InputError, "depth needs width"),
        ("both,depth,batch", {}, InputError, "names a dimension twice"),
        ("width", {"width": 64}, InputError, "missing: base_width$"),
        ("both", {"width": 64, "base_width": 32}, InputError, "missing: depth, base_depth$"),
        ("both,rank", {}, InputError, "rank has no law in the depth"),
        ("width,heads", {"width": 64, "base_width": 32}, InputError, "given with across heads"),
        ("batch", {"depth": 8}, InputError, "depth was given without across depth"),
        ("batch", {"gradient_noise": "some"}, InputError, "valid are: dominant, none"),
        ("width", {"gradient_noise": "none"}, InputError, "without across batch"),
        ("width", {"rank": "high"}, InputError, "unknown rank 'high'"),
        ("width", {"curve": True}, InputError, "curve was given without across batch"),
        ("hidden", {}, InputError, "unknown across 'hidden'; valid are: depth, width, both, batch"),
        ("experts", {}, Refusal, "no parameter of this layer grows with experts"),
        ("batch", {"update": "-eta*abs(g)"}, Refusal, "no linear response"),
        ("rank", {"update": "-eta*norm(theta)*sign(g)"}, Refusal, "never leaves it"),
    ],
)
def test_what_does_not_go_together_or_has_no_law_is_refused(across, given, error, says):
    select = {} if "update" in given else {"optimizer": "adam"}
    with pytest.raises(error, match=says):
        derive(across=across, **select, **given)


def test_a_router_is_read_as_the_head_is():
    """One update moves each score by one; under Adam its rate is that of a matrix in the width."""
    for optimizer in ("sgd", "adam", "lamb", "muon-plain"):
        table = role_table(Selection(optimizer, **MIXTURE), form="weights")
        router, head = table.row("router"), table.row("head")
        assert (router.init, router.rate, router.epsilon) == (head.init, head.rate, head.epsilon)
    apart = role_table(Selection("adam", **MIXTURE), alignment="none")
    assert apart.row("router").init == D ** Fraction(-1, 2)


def test_the_two_factors_of_an_adapter_take_two_rates():
    """LoRA+'s ratio under Adam, and a rate that stays with the rank where BA is divided by r."""
    table = role_table(Selection("adam"), "width,rank")
    a, b = table.row("lora-a"), table.row("lora-b")
    assert (a.rate, b.rate, b.init) == (ONE / D, ONE / R, None)


@pytest.mark.parametrize(("optimizer", "power"), [("adam", Fraction(1, 2)), ("sgd", 1)])
def test_an_expert_sees_its_share_of_a_noisy_batch(optimizer, power):
    """(BK/E)^((1 + p)/2), on top of what its smaller gradient asks for without noise."""
    selection = Selection(optimizer, **MIXTURE)
    still, noisy = (role_table(selection, a) for a in ("experts", "width,experts,top-k,batch"))
    for role in ("fc1", "fc2", "router"):
        row = noisy.row(role)
        assert row.rate.put({"d": ONE}) == still.row(role).rate * (B * K / E) ** power
        assert (row.rate * row.decay).exponent("E") == 0
    assert noisy.row("query").rate.exponent("E") == 0


# ---- what is drawn ----


@pytest.mark.parametrize("practice", ["g/(abs(g) + 3*epsilon)", "g/sqrt(g**2 + 9*epsilon**2)"])
def test_the_epsilon_that_is_measured_is_as_large_as_what_stands_beside_it(practice):
    beside = explicit.beside_epsilon(PRACTICE.parse(practice).root)
    assert beside is not None
    assert explicit.as_large(beside, *np.full((2, 2, 3), 1.5)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ("-eta*max(rms(theta), 1/1000)*g", "-eta*max(rms(theta), 1)*g"),
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
