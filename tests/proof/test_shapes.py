"""Heads, hidden units, tokens, experts and adapters: proved, and a planted error is refuted."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from deepnet_theory.cli.deriving import derive
from deepnet_theory.definitions.outcome import InputError, Refusal, Verdict
from deepnet_theory.definitions.selection import SHAPES
from deepnet_theory.sizes.batch import POWERS
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.width import NUMBERS, role_table

MIXTURE = "attention,ffn-swiglu@2/8"
EIGHTH = Fraction(1, 8)
D, B = map(Monomial.of, ("d", "B"))
by_shape = pytest.mark.parametrize("across", SHAPES)


def across_(across, optimizer="adam", **given):
    return derive(optimizer, across=across, layer=MIXTURE, **given)


@by_shape
@pytest.mark.parametrize("alignment", ("full", "none"))
@pytest.mark.parametrize(
    "optimizer",
    ("adam", *(pytest.param(o, marks=pytest.mark.slow) for o in ("sgd", "lamb", "muon", "lars"))),
)
def test_a_table_is_proved(across, optimizer, alignment):
    of = across_(across, optimizer, alignment=alignment)
    assert of.verdict is Verdict.PROVED, of.shown


@by_shape
def test_an_eighth_of_a_power_off_in_any_number_is_refuted(across):
    right = across_(across)
    x = Monomial.of(SHAPES[across])
    for number in NUMBERS:
        rows = tuple(
            replace(r, **{number: (getattr(r, number) or ONE) * x**EIGHTH})
            for r in right.table.rows
        )
        wrong = replace(right, table=replace(right.table, rows=rows))
        refuted = {f.of for f in wrong.measured if f.verdict is Verdict.REFUTED}
        for row in rows:
            assert any(of.endswith(f"{row.role}/{across}/{number}") for of in refuted), row.role


@by_shape
def test_a_list_multiplies_what_each_dimension_says(across):
    joint, wide, own = (across_(a) for a in (f"width,{across}", "width", across))
    x = SHAPES[across]
    for row in own.table.rows:
        both = joint.table.row(row.role).rate
        assert both and row.rate and both.exponent(x) == row.rate.exponent(x)
    for row in wide.table.rows:
        both = joint.table.row(row.role).rate
        assert both and row.rate and both.exponent("d") == row.rate.exponent("d")
    batch = across_(f"both,{across},batch") if across != "rank" else across_("width,rank,batch")
    rates = {row.role: row.rate for row in batch.table.rows}
    assert all(rate.exponent("B") == Fraction(1, 2) for r, rate in rates.items() if r != "key-bias")
    assert batch.to_dict()["across"].endswith(f"{across},batch")


def test_every_number_of_a_list_has_its_facts():
    of, deep = across_("width,ffn"), across_("both,experts,ffn")
    assert of.verdict is deep.verdict is Verdict.PROVED, deep.shown
    named = {fact.of for fact in of.measured}
    assert {"encoder/attention/query/rate", "encoder/ffn-swiglu@2/8/fc2/ffn/rate"} <= named


def refuted_with(right, number, x):
    """What is refuted where a number of the last matrix is off by an eighth of a power of x."""
    rows = tuple(
        replace(r, **{number: (getattr(r, number) or ONE) * x**EIGHTH}) if r.role == "fc2" else r
        for r in right.table.rows
    )
    wrong = replace(right, table=replace(right.table, rows=rows))
    return {f.of for f in wrong.measured if f.verdict is Verdict.REFUTED}


def test_an_eighth_of_a_power_off_in_a_list_is_refuted():
    right = across_("width,ffn")
    for x in (D, Monomial.of("m")):
        refuted = refuted_with(right, "rate", x)
        assert refuted and all("/fc2/" in of and of.endswith("rate") for of in refuted)
    noisy = across_("width,experts,batch")
    assert noisy.verdict is Verdict.PROVED
    for number, x in product(POWERS, (D, B, Monomial.of("E"))):
        end = f"fc2/width,experts,batch/{number}"
        assert any(of.endswith(end) for of in refuted_with(noisy, number, x)), (number, x)
    deep = across_("both,ffn")
    for by in (Monomial.of("N") ** EIGHTH, Monomial.number(2)):
        rows = (replace(r, rate=r.rate * by) if r.role == "fc2" else r for r in deep.table.rows)
        wrong = replace(deep, table=replace(deep.table, rows=tuple(rows)))
        assert any(f.of.endswith("fc2/ffn/rate") and not f.holds for f in wrong.measured)


def test_a_router_is_read_as_the_head_is():
    """One update moves each score by one; under Adam its rate is that of a matrix in the width."""
    for optimizer in ("sgd", "adam", "lamb", "muon-plain"):
        table = across_("width", optimizer, form="weights").table
        router, head = table.row("router"), table.row("head")
        assert (router.init, router.rate, router.epsilon) == (head.init, head.rate, head.epsilon)
    assert across_("width", alignment="none").table.row("router").init == D ** Fraction(-1, 2)


def test_the_two_factors_of_an_adapter_take_two_rates():
    """LoRA+'s ratio under Adam, and a rate that stays with the rank where BA is divided by r."""
    table = across_("width,rank").table
    a, b = table.row("lora-a"), table.row("lora-b")
    assert a.rate == ONE / D and b.rate == ONE / Monomial.of("r") and b.init is None


@pytest.mark.parametrize(
    ("across", "given", "says"),
    [
        ("depth", {"form": "weights"}, "form was given without across width"),
        ("depth,heads", {}, "depth needs width"),
        ("both,depth,batch", {}, "names a dimension twice"),
        ("width", {"width": 64}, "missing: base_width$"),
        ("both", {"width": 64, "base_width": 32}, "missing: depth, base_depth$"),
        ("both,rank", {}, "rank has no law in the depth"),
        ("width,heads", {"width": 64, "base_width": 32}, "width was given with across heads"),
        ("batch", {"depth": 8}, "depth was given without across depth"),
        ("batch", {"gradient_noise": "some"}, "valid are: dominant, none"),
        ("width", {"gradient_noise": "none"}, "without across batch"),
        ("width", {"curve": True}, "curve was given without across batch"),
        ("hidden", {}, "unknown across 'hidden'; valid are: depth, width, both, batch, heads"),
    ],
)
def test_what_does_not_go_together_is_refused(across, given, says):
    with pytest.raises(InputError, match=says):
        derive("adam", across=across, **given)


@pytest.mark.parametrize(
    ("optimizer", "across", "says"),
    [
        ("adam", "experts", "no parameter of this layer grows with experts"),
        ("-eta*abs(g)", "batch", "no linear response"),
        ("muon-h", "rank", "never leaves it"),
    ],
)
def test_what_has_no_law_is_refused(optimizer, across, says):
    with pytest.raises(Refusal, match=says):
        derive(optimizer, across=across)


@pytest.mark.parametrize(("optimizer", "power"), [("adam", Fraction(1, 2)), ("sgd", 1)])
def test_an_expert_sees_its_share_of_a_noisy_batch(optimizer, power):
    """(BK/E)^((1 + p)/2), on top of what its smaller gradient asks for without noise."""
    still = across_("experts", optimizer).table
    noisy = {row.role: row for row in across_("width,experts,top-k,batch", optimizer).table.rows}
    for role in ("fc1", "fc2", "router"):
        without, row = still.row(role), noisy[role]
        more = (B * Monomial.of("K") / Monomial.of("E")) ** power
        assert row.rate.put({"d": ONE}) == without.rate * more
        assert (row.rate * row.decay).exponent("E") == 0
    assert noisy["query"].rate.exponent("E") == 0


def test_the_numbers_of_two_widths_leave_the_table_as_it_is():
    table = role_table(derive("adam").selection)
    assert derive("adam", width=64, base_width=32, across="width").table.rows == table.rows
    assert role_table(derive("adam").selection, "ffn").forced == ()
