"""Every number beside the steps is checked: each one, planted wrong, is REFUTED and named.

Entries are wrong in all rows of a table at once, and every one of them must be refuted by its own
measurement. What is refuted besides is listed, so that no entry is covered by another.
"""

from dataclasses import replace
from fractions import Fraction

import derivations
import pytest

from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.table import ParameterRow, SublayerRow, Table
from deepnet_theory.spec.verdict import Verdict
from deepnet_theory.symbolic import measured as room
from deepnet_theory.symbolic.measured import measured

# every placement, role and kind of update; a part that another amplifies; a rate of its own
TABLES = (
    "sgd post-ln", "lamb pre-ln", "adam res-post-ln", "muon swiglu", "adafactor", "falling",
    "complete post-ln", "complete pre-ln", "complete multiplier", "learning-rate", "sgd both",
    "parallel post-ln", "norms inside post-ln", "experts sgd", "learnt branch", "learnt stream",
    "adam both, independent", "complete both",
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


def table_with(of, **rows):
    """The table of the same rule with other rows."""
    planted = Table(of.rule)
    planted.__dict__.update({"sublayers": of.sublayers, "parameters": of.parameters, **rows})
    return planted


def refuted(of):
    return {row.of for row in measured(of) if row.verdict is Verdict.REFUTED}


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


def with_entries(of, plant, fields):
    """The table with fields wrong in all of its rows, and what must be refuted."""
    fields, expected = set(fields), set()
    rows = {"sublayers": [], "parameters": []}
    for name, names in (("sublayers", OF_SUBLAYERS), ("parameters", OF_PARAMETERS)):
        for row in getattr(of, name):
            wrong, told = planted(row, plant, [f for f in names if f in fields], names)
            expected |= told
            rows[name].append(wrong)
    if "epsilon" not in of.selection.the_optimizer.practised.names:
        expected = {name for name in expected if not name.startswith("epsilon")}
    return table_with(of, **{name: tuple(found) for name, found in rows.items()}), expected


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


# ---- what is said of the whole ----


def with_values(monkeypatch, name, planted):
    """The same query of the table, its answer wrong."""
    right = getattr(room, name)
    monkeypatch.setattr(room, name, lambda *of: planted(right(*of)))


def called(rows, start):
    return {row.of: row.verdict for row in rows if row.of.startswith(start)}


def test_a_predicted_exponent_is_measured(table, monkeypatch):
    before = called(measured(table), "predicted exponent")
    assert set(before.values()) <= {Verdict.MEASURED}
    grows = any(row.independent.exponent(d) > 0 for row in table.sublayers for d in "NM")
    assert bool(before) != grows

    def other(right):
        return replace(
            right,
            exponents=tuple(
                replace(p, exponent=None if p.exponent is None else p.exponent + SIXTEENTH)
                for p in right.exponents
            ),
        )

    with_values(monkeypatch, "predictions", other)
    after = called(measured(table), "predicted exponent")
    assert len(after) == len(before) and set(after.values()) <= {Verdict.REFUTED}


SIDE = (  # a table, what is said of the whole, the query, and its answer planted wrong
    ("complete res-post-ln", "epsilon of the norm", "of_entry",
     lambda right: [replace(n, squared=f"({n.squared})*N**(1/16)") for n in right]),
    ("adafactor", "floor of", "crossings",
     lambda right: [replace(c, depth=c.depth * Monomial.of("fans") ** SIXTEENTH) for c in right]),
)  # fmt: skip


@pytest.mark.parametrize(("name", "start", "query", "planted"), SIDE)
def test_the_epsilon_of_a_norm_and_the_depth_of_a_floor_are_measured(
    name, start, query, planted, monkeypatch
):
    assert not called(measured(derivations.derivation("adam post-ln").table), start)
    of = derivations.derivation(name).table
    before = called(measured(of), start)
    with_values(monkeypatch, query, planted)
    after = called(measured(of), start)
    assert before.keys() == after.keys() and set(before.values()) == {Verdict.MEASURED}
    assert set(after.values()) == {Verdict.REFUTED}


PRINTED = (  # a table, a query whose words or texts are printed, its answer wrong, what is refuted
    ("adam post-ln", "parameter_rules",
     lambda right: [replace(p, rate=f"({p.rate})*N**(1/16)") for p in right], "learning rate of"),
    ("adam post-ln", "parameter_rules",
     lambda right: [replace(p, gain=f"({p.gain})*2") for p in right], "size of"),
    ("adam post-ln", "parameter_rules",
     lambda right: [replace(p, epsilon=f"({p.epsilon})*N") for p in right], "epsilon of"),
    ("adam post-ln", "parameter_rules",
     lambda right: [replace(p, weight_decay=f"({p.weight_decay})*N") for p in right],
     "weight decay of"),
    ("sgd post-ln", "of_sublayer",
     lambda right: [replace(c, value=c.value * Monomial.number(2)) for c in right], "r of"),
    ("sgd post-ln", "of_sublayer",
     lambda right: [replace(c, remark="unstable") for c in right], "state of"),
    ("sgd post-ln", "share_consequences",
     lambda right: [replace(c, remark="equal, nearly") for c in right], "standing of"),
    ("complete res-post-ln", "sinking",
     lambda right: [
         replace(s, depths=tuple((name, twice(at, s)) for name, at in s.depths)) for s in right
     ], "depth where epsilon sinks"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "query", "planted", "start"), PRINTED)
def test_what_is_printed_is_what_is_measured(name, query, planted, start, monkeypatch):
    of = derivations.derivation(name).table
    before = called(measured(of), start)
    assert set(before.values()) == {Verdict.MEASURED}
    with_values(monkeypatch, query, planted)
    assert Verdict.REFUTED in called(measured(of), start).values()


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("unit-residual", lambda right: [*right, ("learning-rate", False)]),
        ("adam post-ln", lambda right: [*right, ("unit-init", False)]),
        ("adam post-ln", lambda right: [(name, not exact) for name, exact in right]),
    ],
)
def test_closures_that_are_not_one_rule_are_told_apart(name, planted, monkeypatch):
    of = derivations.derivation(name).table
    assert set(called(measured(of), "equivalent").values()) <= {Verdict.MEASURED}
    with_values(monkeypatch, "equivalent_closures", planted)
    assert Verdict.REFUTED in called(measured(of), "equivalent").values()


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
