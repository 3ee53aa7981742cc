"""Every number beside the steps is checked: each one, planted wrong, is REFUTED and named.

Entries are wrong in all rows of a table at once, and every one of them must be refuted by its own
measurement. What is refuted besides is listed, so that no entry is covered by another.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import derivations
import pytest

from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.proof import measured as room
from deepnet_theory.proof.measured import measured
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.table import ParameterRow, SublayerRow, Table

# every placement, role and kind of update; a part that another amplifies; a rate of its own
TABLES = (
    "sgd post-ln", "lamb pre-ln", "adam res-post-ln", "muon swiglu", "adafactor", "falling",
    "complete post-ln", "learning-rate", "sgd both", "parallel post-ln", "norms inside",
    "experts sgd", "learnt stream", "complete both",
)  # fmt: skip
SIXTEENTH = Fraction(1, 16)
# a field of a row, and what its measurement is called
OF_SUBLAYERS = {
    "beta": "beta of ",
    "weight": "r of ", "aligned": "S*r of ", "independent": "S*r^2 of ", "rho": "rho of ",
    "orders": "order ",
}  # fmt: skip
OF_PARAMETERS = {
    "size": "size of ",
    "gradient": "gradient of ", "update": "update of ", "share": "share of ",
    "rate": "learning rate of ", "epsilon": "epsilon of ", "decay": "weight decay of ",
}  # fmt: skip
CONVENTIONS = ("epsilon", "decay")  # their constant is one, their power is not
# ρ makes the largest stable rate, a decay is a share of what the learning rate moves, and words
# and multipliers follow from sizes
BESIDES = {
    "rho": "largest stable rate of ", "rate": "weight decay of ", "orders": "state of ",
    "share": ("standing of ", "multiplier of "),
}  # fmt: skip
Row = SublayerRow | ParameterRow


def deeper(value, row):
    """A power of the part's own depth too much."""
    return value * Monomial.of(row.depth) ** SIXTEENTH


def other_depth(value, row):
    """A power of the other depth too much."""
    return value / Monomial.of("M" if row.depth == "N" else "N") ** SIXTEENTH


def twice(value, row):
    return value * Monomial.number(2)


def inverted(value, row):
    """The sign of every exponent."""
    return ONE / value


PLANTS = (deeper, other_depth, twice, inverted)


def table_with(table, **rows):
    """The table of the same rule with other rows."""
    planted = Table(table.rule)
    planted.__dict__.update({"sublayers": table.sublayers, "parameters": table.parameters, **rows})
    return planted


def refuted(table):
    return {row.of for row in measured(table) if row.verdict is Verdict.REFUTED}


@cache
def right(name):
    """What is measured of the right table, each number by its name."""
    return {row.of: row.verdict for row in derivations.derivation(name).measured}


def of_row(row):
    if isinstance(row, SublayerRow):
        return f"{row.part}, {row.sublayer}"
    return f"{row.parameter} of {row.sublayer}, {row.part}"


def planted(row, plant, fields, names):
    """The row with its fields wrong, and what must be refuted of it.

    A parameter that never moves has no multiplier that could be wrong.
    """
    changes = {}
    expected = set()
    for field in fields:
        if field == "orders":
            assert isinstance(row, SublayerRow)
            changes[field] = orders = tuple(plant(size, row) for size in row.orders)
            for k, (right, wrong) in enumerate(zip(row.orders, orders, strict=True), start=1):
                if wrong != right:
                    expected.add(f"{names[field]}{k} of {of_row(row)}")
            continue
        value = getattr(row, field)
        still = getattr(row, "gradient", ONE) is None
        if value is None or (still and field != "size"):
            continue
        wrong = plant(value, row)
        if wrong == value or (field in CONVENTIONS and not (wrong / value).symbols):
            continue
        changes[field] = wrong
        expected.add(names[field] + of_row(row))
    return replace(row, **changes), expected


def with_entries(table, plant, fields):
    """The table with fields wrong in all of its rows, and what must be refuted."""
    expected, rows = set(), {}
    for kind, names in (("sublayers", OF_SUBLAYERS), ("parameters", OF_PARAMETERS)):
        pairs = [
            planted(row, plant, [field for field in names if field in fields], names)
            for row in getattr(table, kind)
        ]
        rows[kind] = tuple(wrong for wrong, _ in pairs)
        expected |= {name for _, refuted in pairs for name in refuted}
    if "epsilon" not in table.selection.the_optimizer.practised.names:
        expected = {name for name in expected if not name.startswith("epsilon")}
    return table_with(table, **rows), expected


@pytest.fixture(scope="session", params=TABLES)
def table(request):
    return derivations.derivation(request.param).table


@pytest.mark.parametrize("plant", PLANTS)
def test_every_entry_is_measured(table, plant):
    """In two halves, of fields that no other's measurement rests on."""
    if plant is other_depth and len(table.selection.the_stack.parts) == 1:
        return
    halves = [
        ["beta", "size", "weight", "aligned", "independent", "gradient", "share", "decay"],
        ["rho", "orders", "update", "rate", "epsilon"],
    ]
    assert {*halves[0], *halves[1]} == {*OF_SUBLAYERS, *OF_PARAMETERS}
    for fields in halves:
        wrong, expected = with_entries(table, plant, fields)
        found = refuted(wrong)
        assert expected <= found
        besides = tuple(BESIDES[field] for field in fields if isinstance(BESIDES.get(field), str))
        besides += BESIDES["share"] if "share" in fields else ()
        assert all(name.startswith(besides) for name in found - expected)


@pytest.mark.parametrize("field", [*OF_SUBLAYERS, *OF_PARAMETERS])
def test_an_entry_is_refuted_by_its_own_measurement(field):
    for name in ("adam post-ln", "adam both, independent"):
        wrong, expected = with_entries(derivations.derivation(name).table, deeper, [field])
        found = refuted(wrong)
        assert expected and expected <= found
        assert all(name.startswith(BESIDES.get(field, ())) for name in found - expected)


def test_the_largest_stable_rate_is_measured(table, monkeypatch):
    right = {row: row.failing for row in table.sublayers}
    monkeypatch.setattr(SublayerRow, "failing", property(lambda row: deeper(right[row], row)))
    assert refuted(table) == {f"largest stable rate of {of_row(row)}" for row in table.sublayers}


@pytest.mark.parametrize("field", ["gradient", "share"])
def test_what_is_zero_is_measured_to_be_and_nothing_else(table, field):
    for half in (0, 1):  # some matrices are left, whose shares are summed
        wrong = {
            row: replace(row, **{field: ONE if getattr(row, field) is None else None})
            for row in table.parameters[half::2]
        }
        rows = tuple(wrong.get(row, row) for row in table.parameters)
        found = refuted(table_with(table, parameters=rows))
        assert found >= {f"gradient of {of_row(row)}" for row in wrong}


# ---- what is said of the whole, and what is printed in words and texts ----


def called(verdicts, start):
    return {of: verdict for of, verdict in verdicts.items() if of.startswith(start)}


def now(table, start):
    """What is measured of a table, or with a query, that is wrong."""
    return called({row.of: row.verdict for row in measured(table)}, start)


def with_query(monkeypatch, name, planted):
    """The same query of the table, its answer wrong."""
    right = getattr(room, name)
    monkeypatch.setattr(room, name, lambda *given: planted(right(*given)))


def each(**wrong):
    """Plants fields of every answer: the value by its function."""
    return lambda right: [
        replace(one, **{field: plant(getattr(one, field)) for field, plant in wrong.items()})
        for one in right
    ]


def sixteenth_more(predictions):
    def more(exponent):
        return None if exponent is None else exponent + SIXTEENTH

    exponents = tuple(
        replace(
            p,
            exponent=more(p.exponent),
            rivals=tuple((name, more(exponent)) for name, exponent in p.rivals),
        )
        for p in predictions.exponents
    )
    return replace(predictions, exponents=exponents)


QUERIES = (  # a table, what is refuted, the query, and its answer planted wrong
    ("complete res-post-ln", "epsilon of the norm", "of_entry",
     each(squared=lambda text: f"({text})*N**(1/16)")),
    ("adafactor", "floor of", "crossings",
     each(depth=lambda depth: depth * Monomial.of("fans") ** SIXTEENTH)),
    ("complete res-post-ln", "depth where epsilon sinks", "sinking",
     each(depths=lambda depths: tuple((name, twice(at, None)) for name, at in depths))),
    ("adam post-ln", "learning rate of", "parameter_rules",
     each(rate=lambda text: f"({text})*N**(1/16)")),
    ("adam post-ln", "size of", "parameter_rules", each(gain=lambda text: f"({text})*2")),
    ("adam post-ln", "epsilon of", "parameter_rules", each(epsilon=lambda text: f"({text})*N")),
    ("adam post-ln", "weight decay of", "parameter_rules",
     each(weight_decay=lambda text: f"({text})*N")),
    ("sgd post-ln", "r of", "of_sublayer", each(value=lambda value: twice(value, None))),
    ("sgd post-ln", "state of", "of_sublayer", each(remark=lambda _: "unstable")),
    ("sgd post-ln", "standing of", "share_consequences", each(remark=lambda _: "equal, nearly")),
    ("adam post-ln", "equivalent", "equivalent_closures",
     lambda right: [(name, not exact) for name, exact in right]),
)  # fmt: skip


@pytest.mark.parametrize(("name", "start", "query", "planted"), QUERIES)
def test_what_is_printed_is_what_is_measured(name, start, query, planted, monkeypatch):
    table = derivations.derivation(name).table
    before = called(right(name), start)
    assert set(before.values()) == {Verdict.MEASURED}
    with_query(monkeypatch, query, planted)
    after = now(table, start)
    assert before.keys() == after.keys() and Verdict.REFUTED in after.values()
    assert set(after.values()) == {Verdict.REFUTED} or start == "depth where epsilon sinks"


def test_what_does_not_fall_or_has_no_floor_is_not_measured():
    assert not called(right("adam post-ln"), ("epsilon of the norm", "floor of", "depth where"))


@pytest.mark.parametrize("name", TABLES)
def test_a_predicted_exponent_is_measured(name, monkeypatch):
    table = derivations.derivation(name).table
    before = called(right(name), "predicted exponent")
    assert set(before.values()) <= {Verdict.MEASURED}
    grows = any(row.independent.exponent(d) > 0 for row in table.sublayers for d in "NM")
    assert bool(before) != grows
    with_query(monkeypatch, "predictions", sixteenth_more)
    after = now(table, "predicted exponent")
    assert len(after) == len(before) and set(after.values()) <= {Verdict.REFUTED}


@pytest.mark.parametrize(
    ("name", "closure"), [("unit-residual", "learning-rate"), ("adam post-ln", "unit-init")]
)
def test_closures_that_are_not_one_rule_are_told_apart(name, closure, monkeypatch):
    table = derivations.derivation(name).table
    assert set(called(right(name), "equivalent").values()) <= {Verdict.MEASURED}
    with_query(monkeypatch, "equivalent_closures", lambda right: [*right, (closure, False)])
    assert now(table, "equivalent")[f"equivalent closure {closure}"] is Verdict.REFUTED


def solved_wrongly(table, **knobs):
    """The rows of a table whose rule is wrong, and every size that follows from it as wrong."""
    rows = room._Rows(table)
    wrong = tuple(
        replace(entry, **{knob: f"({getattr(entry, knob)})*{by}" for knob, by in knobs.items()})
        for entry in rows.stack.rule.entries
    )
    rows.stack = replace(rows.stack, rule=replace(rows.stack.rule, entries=wrong))
    return {row.of for row in rows.conditions() if row.verdict is Verdict.REFUTED}


@pytest.mark.parametrize(
    ("name", "closure"),
    [
        ("complete post-ln", "complete"),
        ("adam post-ln", "symmetric"),
        ("lemma", "parameter-norm"),
    ],
)
def test_the_balance_and_the_closure_are_measured_at_the_rule(name, closure):
    table = derivations.derivation(name).table
    where = {f"{row.part}, {row.sublayer}" for row in table.sublayers}
    assert solved_wrongly(table) == set()
    # a constant is the closure's affair, a power the balance's too
    assert solved_wrongly(table, beta="2") == {f"closure {closure} of {at}" for at in where}
    both = solved_wrongly(table, beta="N**(1/16)")
    assert both >= {f"balance of {at}" for at in where}


def test_the_rule_of_an_equivalent_closure_and_other_optimizers_rules_are_measured():
    rows = called(right("adam post-ln"), ("closure", "predicted"))
    assert "closure parameter-norm of encoder, *, under parameter-norm" in rows
    assert {f"predicted exponent in N, all, of {name}'s rule" for name in ("sgd", "lamb")} <= {
        *rows
    }
    assert set(rows.values()) == {Verdict.MEASURED}


def test_a_planted_table_refutes_the_derivation():
    right = derivations.derivation("sgd post-ln")
    assert right.verdict is Verdict.PROVED
    first, *others = right.table.parameters
    wrong = replace(right)
    assert first.share is not None
    planted = (replace(first, share=first.share * Monomial.of("N") ** SIXTEENTH), *others)
    wrong.__dict__["table"] = table_with(right.table, parameters=planted)
    assert wrong.verdict is Verdict.REFUTED and wrong.disagreements == ()
    refused = [row for row in wrong.to_dict()["measured"] if row["verdict"] == "REFUTED"]
    of = of_row(first)
    assert [row["of"] for row in refused] == [f"share of {of}", f"multiplier of {of}"]
    assert refused[0]["table"] != refused[0]["measured"]
